# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.statistics import NormalizationLayers
from newfound_training.online.replay import predict_with, re_estimate, replay, verify


@pytest.mark.parametrize("estimator", ["batch", "streaming"])
@pytest.mark.parametrize("positions", [4, 49])
def test_the_replay_ends_with_the_statistics_of_onda_itself(target, estimator, positions):
    config = OndaConfig.thesis(5, 0.3, estimator, positions_per_frame=positions)
    model, order = target.loaded.model, target.order(0)
    layers = NormalizationLayers(model)
    source = layers.read()

    written = []
    write = NormalizationLayers.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            NormalizationLayers,
            "write",
            lambda self, s: (written.append(s) if self.network is model else None, write(self, s)),
        )
        replay(model, target.frames, order, config)
    onda = Onda(model, config)
    for index in order:
        onda.predict(target.frames(np.array([index])))
    online = layers.read()
    onda.close()
    layers.write(source)
    assert onda.status().updates == 4
    fast = written[-2]  # the last one restores the source
    torch.testing.assert_close(fast.mean, online.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fast.variance, online.variance, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("estimator", ["batch", "streaming"])
def test_the_replay_predicts_what_onda_predicts(target, estimator):
    found = verify(
        target.loaded.model, target.frames, target.order(1), OndaConfig.thesis(5, 0.3, estimator)
    )
    assert found == {"frames": 24, "predicted_alike": 24}


@pytest.mark.parametrize("estimator", ["batch", "streaming"])
def test_the_model_is_left_as_it_was(target, estimator):
    before = {k: v.clone() for k, v in target.loaded.model.state_dict().items()}
    replay(
        target.loaded.model, target.frames, target.order(0), OndaConfig.thesis(5, 0.3, estimator)
    )
    for name, tensor in target.loaded.model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert not any(m._forward_pre_hooks for m in target.loaded.model.modules())


def test_re_estimated_statistics_of_one_batch_are_those_of_its_images():
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4)).eval()
    images = 3 + 2 * torch.randn(40, 4)
    found = re_estimate(model, lambda i: images[i], np.arange(40))
    values = images.double().numpy()
    np.testing.assert_allclose(found.mean, values.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.variance, values.var(0, ddof=1), rtol=1e-5)


def test_re_estimated_statistics_of_several_batches_are_their_weighted_mean():
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4)).eval()
    images = torch.randn(25, 4)
    found = re_estimate(model, lambda i: images[i], np.arange(25), size=10)
    values = images.double().numpy()
    parts = [values[:10], values[10:20], values[20:]]
    expected = sum(len(p) * p.var(0, ddof=1) for p in parts) / 25
    np.testing.assert_allclose(found.mean, values.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.variance, expected, rtol=1e-5)


def test_predicting_with_other_statistics_changes_nothing_for_good(target, everything):
    model = target.loaded.model
    before = predict_with(model, None, target.frames, everything)
    predict_with(model, re_estimate(model, target.frames, everything), target.frames, everything)
    np.testing.assert_array_equal(predict_with(model, None, target.frames, everything), before)
