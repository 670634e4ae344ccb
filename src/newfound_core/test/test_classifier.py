# SPDX-License-Identifier: Apache-2.0

import os
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier, imagenet_classifier, imagenet_labels
from newfound_core.errors import ConfigError


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


@pytest.fixture(scope="module")
def classifier():
    return imagenet_classifier()


@torch.no_grad()
def probabilities(classifier, image):
    return classifier(classifier.preprocessing(image)[None]).softmax(1)[0]


def drawing(name):
    """Plain drawings that any good ImageNet classifier names; no photograph is needed."""
    image = np.full((224, 224, 3), 255, np.uint8)
    if name == "traffic light":
        cv2.rectangle(image, (80, 20), (144, 204), (20, 20, 20), -1)
        for y, colour in ((52, (255, 40, 30)), (112, (255, 200, 0)), (172, (0, 200, 70))):
            cv2.circle(image, (112, y), 24, colour, -1)
    elif name == "analog clock":
        cv2.circle(image, (112, 112), 100, (10, 10, 10), 8)
        for hour in range(1, 13):
            x, y = 112 + 80 * np.sin(hour * np.pi / 6), 112 - 80 * np.cos(hour * np.pi / 6)
            at = (int(x) - 10, int(y) + 8)
            cv2.putText(image, str(hour), at, cv2.FONT_HERSHEY_SIMPLEX, 0.7, (0, 0, 0), 2)
        cv2.line(image, (112, 112), (112, 50), (0, 0, 0), 4)
        cv2.line(image, (112, 112), (155, 130), (0, 0, 0), 6)
    return image


def test_there_are_a_thousand_names():
    labels = imagenet_labels()
    assert len(labels) == 1000
    assert labels[0] == "tench"
    assert labels[999] == "toilet tissue"


@pytest.mark.parametrize("name", ["traffic light", "analog clock"])
def test_a_drawing_is_recognised(classifier, name):
    top = probabilities(classifier, drawing(name)).topk(3).indices.tolist()
    assert name in [classifier.labels[i] for i in top]


def test_photographs_are_recognised(classifier):
    root = Path(os.environ.get("NEWFOUND_DATA", "/nowhere")) / "pacs128" / "photo"
    if not root.is_dir():
        pytest.skip("set NEWFOUND_DATA to a folder with pacs128 to classify real photographs")
    # Indices of ImageNet: dogs 151..268, elephants 101, 385, 386, guitars 402 and 546.
    groups = {"dog": range(151, 269), "elephant": (101, 385, 386), "guitar": (402, 546)}
    hits = []
    for name, classes in groups.items():
        for path in sorted((root / name).glob("*.jpg"))[:12]:
            image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
            hits.append(int(probabilities(classifier, image).argmax()) in classes)
    assert np.mean(hits) > 0.7
