# SPDX-License-Identifier: Apache-2.0
"""Measured fields from the network's stem: what one frame tells of the domain's statistics.

The mean m and the standard deviation s of each channel behind the stem (`stem_clusters`) are what
later layers normalise, and depend on light, camera and background more than on the things shown.
For an image let x = (m, log(s + 0.01)), and d its deviation within domains, entry by entry. With
the means of x / d over each of n domains, their mean c and principal directions V, the fields are

    V (x / d - c) / r,          r the range of the first among the domains.

All n - 1 directions in which the domains differ are kept, up to 16. Ours.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.backbones import Backbone
from newfound_core.predictive.measured import NAMES, measure
from newfound_core.predictive.metadata import Field
from newfound_core.predictive.regression import SAME
from newfound_core.preprocessing import Preprocessing
from newfound_core.stem_clusters import stem_statistics

SMALL = 0.01  # of a channel behind batch normalisation, whose values are about 1
MOST = 16  # fields
PREFIX = "stem_"


@dataclass(frozen=True)
class StemAxes:
    """Directions in which the known domains differ behind the stem."""

    centre: Tensor  # [2 C] the mean of the domains
    directions: Tensor  # [fields, 2 C]

    @classmethod
    def fitted(cls, domains: Sequence[Tensor]) -> "StemAxes":
        """From `StemMeasurer.statistics` of the images of each domain, [N, 2 C] each."""
        means = torch.stack([each.double().mean(0) for each in domains])
        within = torch.cat([x.double() - m for x, m in zip(domains, means, strict=True)])
        deviation = within.square().mean(0).sqrt().clamp(min=SMALL)
        points = means / deviation
        points = points - points.mean(0)
        _, sizes, right = torch.linalg.svd(points, full_matrices=False)
        kept = sizes > sizes.max() * SAME
        kept[0] = True  # even if the domains are all alike
        right = right[kept][:MOST]
        places = points @ right[0]
        unit = float(places.max() - places.min()) or 1.0
        return cls(means.mean(0).float(), (right / (deviation * unit)).float())

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the fields."""
        return tuple(f"{PREFIX}{number}" for number in range(1, len(self.directions) + 1))

    def fields(self) -> tuple[Field, ...]:
        """For a schema."""
        return tuple(Field(name, "coordinate", measured=True) for name in self.names)

    def project(self, statistics: Tensor) -> list[dict[str, float]]:
        """The fields of each image, from its statistics [N, 2 C]."""
        found = (statistics.to(self.centre) - self.centre) @ self.directions.T
        return [dict(zip(self.names, values, strict=True)) for values in found.tolist()]


class StemMeasurer:
    """Stem statistics of images, by a copy of the stem: ONDA moves those of the network."""

    def __init__(self, backbone: Backbone, preprocessing: Preprocessing) -> None:
        parts = [backbone.stem, *list(backbone.stages)[: backbone.branch_point]]
        self._early = copy.deepcopy(nn.Sequential(*parts)).eval()
        self._device = next(self._early.parameters()).device
        self._preprocessing = preprocessing

    @torch.no_grad()
    def statistics(self, images: Sequence[np.ndarray]) -> Tensor:
        """Mean and log deviation of each channel, [N, 2 C]; images are uint8 [H, W, 3] RGB."""
        prepared = self._preprocessing.batch(images).to(self._device)
        mean, deviation = stem_statistics(self._early(prepared)).cpu().chunk(2, 1)
        return torch.cat([mean, (deviation + SMALL).log()], 1)


class Measurer:
    """Measures those fields of images that a graph knows domains by."""

    def __init__(
        self, backbone: Backbone, preprocessing: Preprocessing, axes: StemAxes | None
    ) -> None:
        """Of a network with the source's statistics; without axes the fields of measured.py."""
        self._preprocessing, self._axes = preprocessing, axes
        self._stem = None if axes is None else StemMeasurer(backbone, preprocessing)

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that it measures."""
        return NAMES if self._axes is None else self._axes.names

    def __call__(self, image: np.ndarray) -> dict[str, float]:
        """All fields of one image, uint8 [H, W, 3] RGB."""
        if self._axes is None or self._stem is None:
            return measure(self._preprocessing.resized(image))
        return self._axes.project(self._stem.statistics([image]))[0]
