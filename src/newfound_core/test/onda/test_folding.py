# SPDX-License-Identifier: Apache-2.0

from typing import NamedTuple

import pytest
import torch
from torch import nn

from newfound_core.errors import DataError
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.folding import (
    as_batch,
    find_pairs,
    fold,
    label_and_entropy,
    logits_of,
)
from newfound_core.onda.statistics import NormalizationLayers, Statistics


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 3, 8, 8), (5,), (1, 5)])
def test_one_image_or_vector_becomes_a_batch_of_one(shape):
    assert as_batch(torch.zeros(shape)).shape[0] == 1


@pytest.mark.parametrize("bad", [torch.zeros(0, 3, 8, 8), torch.zeros(3, 8, 8).byte()])
def test_no_images_or_raw_pixels_are_refused(bad):
    with pytest.raises(DataError, match="expected images"):
        as_batch(bad)


def test_logits_are_found_in_a_tuple_that_names_them():
    class Output(NamedTuple):
        domain: int
        logits: torch.Tensor

    logits = torch.zeros(1, 3)
    assert logits_of(Output(0, logits)) is logits
    with pytest.raises(DataError, match="logits"):
        logits_of({"a": logits})


def test_entropy_is_one_for_ignorance_and_zero_for_certainty():
    assert label_and_entropy(torch.zeros(4)) == (0, pytest.approx(1.0))
    assert label_and_entropy(torch.tensor([0.0, 100.0])) == (1, pytest.approx(0.0))


def frame(size=8, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, 3, size, size, generator=generator, dtype=torch.float64)


def moved(layers):
    """Other statistics, as after an update."""
    now = layers.read()
    return Statistics(now.mean + 0.3, now.variance * 1.7)


class Twice(nn.Module):
    """The output of the convolution goes to the normalisation, and past it."""

    def __init__(self, *, share):
        super().__init__()
        self.conv, self.norm, self.share = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), share
        self.norm.running_mean += 0.5

    def forward(self, x):
        x = self.conv(x)
        y = self.norm(x).flatten(1)
        return y + x.flatten(1) if self.share else y


class InPlace(nn.Module):
    """Something happens to the convolution's output before the normalisation sees it."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.conv(x).sigmoid_()).flatten(1)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_folding_changes_no_prediction_whatever_the_statistics(affine, bias):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=bias), nn.BatchNorm2d(4, affine=affine), nn.ReLU(), nn.Flatten(),
        nn.Linear(144, 5, bias=bias), nn.BatchNorm1d(5, affine=affine),
    ).double().eval()  # fmt: skip
    for parameter in network.parameters():
        nn.init.normal_(parameter)
    layers = NormalizationLayers(network)
    folded = fold(layers, frame())
    assert folded is not None
    assert not [
        m for m in folded.network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)
    ]
    statistics = moved(layers)
    layers.write(statistics)
    folded.refresh(statistics)
    torch.testing.assert_close(folded.network(frame(seed=4)), network(frame(seed=4)))


def test_what_the_folded_network_shows_is_what_the_layers_see(network):
    layers = NormalizationLayers(network.double())
    with torch.no_grad():
        network[1].weight[1] = -0.4  # mirrored
        network[1].weight[2] = 0.0  # invisible
    statistics = moved(layers)
    layers.write(statistics)
    folded = fold(layers, frame())
    assert folded is not None
    seen, shown = [], []
    for index in range(2):
        layers.modules[index].register_forward_pre_hook(lambda _, x: seen.append(x[0]))
        folded.observed[index].register_forward_pre_hook(lambda _, x: shown.append(x[0]))
    batch = torch.cat([frame(seed=seed) for seed in range(5)])
    network(batch), folded.network(batch)

    def measure(inputs):
        flat = [x.transpose(0, 1).flatten(1) for x in inputs]
        return tuple(
            torch.cat([getattr(x, name)(1) for x in flat]).detach() for name in ("mean", "var")
        )

    for found, expected, kept in zip(
        folded.unfold(*measure(shown)),
        measure(seen),
        (statistics.mean, statistics.variance),
        strict=True,
    ):
        expected[2] = kept[2]
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("layers", ["all", "last:1"])
@pytest.mark.parametrize("estimator", ["streaming", "batch"])
def test_adapting_with_and_without_folding_is_the_same(
    estimator, layers, make_network, shifted_frames, monkeypatch
):
    config = OndaConfig.thesis(
        estimator=estimator, frames_per_update=4, anchor=True, layers=layers
    )
    folded = Onda(make_network().double(), config)
    outputs = [folded.predict(x.double()) for x in shifted_frames(13)]
    assert folded.status().updates == 3
    monkeypatch.setattr("newfound_core.onda.adapter.fold", lambda *_: None)
    plain = Onda(make_network().double(), config)
    expected = [plain.predict(x.double()) for x in shifted_frames(13)]
    torch.testing.assert_close(torch.stack(outputs), torch.stack(expected))
    # The network itself follows too: it can be used by itself afterwards.
    for own, other in zip(folded.network.buffers(), plain.network.buffers(), strict=True):
        torch.testing.assert_close(own, other)


def test_a_reset_reaches_the_folded_network(network, shifted_frames):
    before = network(shifted_frames(1)[0][None])[0]
    onda = Onda(network, OndaConfig.thesis(frames_per_update=2, momentum=0.9))
    for x in shifted_frames(6):
        onda.predict(x)
    onda.reset()
    onda.freeze()
    torch.testing.assert_close(onda.predict(shifted_frames(1)[0]), before)


def test_the_networks_own_weights_stay(network, shifted_frames):
    weights = [p.clone() for p in network.parameters()]
    onda = Onda(network, OndaConfig.thesis(frames_per_update=2))
    for x in shifted_frames(6):
        onda.predict(x)
    for now, before in zip(network.parameters(), weights, strict=True):
        assert torch.equal(now, before)


@pytest.mark.parametrize("network", [Twice(share=True), InPlace()])
def test_a_layer_whose_output_is_used_otherwise_is_not_folded(network):
    assert fold(NormalizationLayers(network.double().eval()), frame()) is None


def test_a_layer_that_runs_twice_is_not_folded():
    conv = nn.Conv2d(3, 3, 1)
    network = nn.Sequential(conv, nn.BatchNorm2d(3), conv, nn.BatchNorm2d(3)).double().eval()
    assert find_pairs(NormalizationLayers(network), frame()) == []


def test_what_cannot_be_folded_still_adapts(shifted_frames):
    normalised_first = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(192, 2))
    onda = Onda(
        normalised_first.eval(), OndaConfig.thesis(estimator="streaming", frames_per_update=2)
    )
    for x in shifted_frames(4):
        onda.predict(x)
    assert float(onda.network[0].running_mean.mean()) > 0.1


def test_half_precision_is_served_as_it_is(network):
    assert fold(NormalizationLayers(network.half()), frame().half()) is None
