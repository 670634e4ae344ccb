# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.errors import ConfigError
from torch import nn


def test_logits_are_a_linear_function_of_the_features():
    model = Classifier(build_backbone("cifar_resnet20"), 5).eval()
    images = torch.randn(2, 3, 32, 32)
    expected = model.backbone(images) @ model.classifier.weight.T + model.classifier.bias
    torch.testing.assert_close(model(images), expected)


def test_the_output_is_normalised_on_request():
    model = Classifier(build_backbone("cifar_resnet20"), 5, output_norm=True)
    assert isinstance(model.norm, nn.BatchNorm1d)
    torch.testing.assert_close(model(torch.randn(8, 3, 32, 32)).mean(0), torch.zeros(5))


def test_a_classifier_without_classes_is_refused():
    with pytest.raises(ConfigError, match="at least one class"):
        Classifier(build_backbone("cifar_resnet20"), 0)
