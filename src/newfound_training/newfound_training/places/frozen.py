# SPDX-License-Identifier: Apache-2.0
"""The frozen first stages of a network, computed once for every image.

Training then sees only the rest of the network, which takes a fraction of the time. What the
rest needs of an image is one row: the map from which the domain branch leaves, thinned out as
the branch does itself, and the map behind the last frozen stage.

    row = [ early map | last frozen map ]
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from newfound_core.backbones import Backbone
from newfound_core.domain_branch import DomainBranch
from newfound_core.errors import ConfigError
from newfound_core.places import PlaceClassifier, WbnConfig
from newfound_training.places.inputs import ImageInputs
from newfound_training.places.models import frozen_parts

Shape = tuple[int, ...]
_BATCH = 50


class FrozenPart(nn.Module):
    """Images to rows, with the statistics of pretraining."""

    def __init__(
        self, backbone: Backbone, frozen: int, reduction: int = WbnConfig.branch_reduction
    ) -> None:
        super().__init__()
        if frozen < 1 + backbone.branch_point:
            raise ConfigError(
                f"frozen_stages is {frozen}, but the domain branch of {backbone.name} leaves "
                f"behind part {1 + backbone.branch_point}: freeze at least as many, or give "
                "--remembered-variants 0"
            )
        self.parts = nn.ModuleList(frozen_parts(backbone, frozen))
        self.branch_point = backbone.branch_point
        self.reduction = 1 if backbone.branch_point else reduction  # as the branch itself
        self.eval()

    @torch.no_grad()
    def maps(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The early map and the last one."""
        x, early = images, images
        for number, part in enumerate(self.parts):
            x = part(x)
            if number == self.branch_point:
                early = x[:, :, :: self.reduction, :: self.reduction]
        return early, x

    def forward(self, images: Tensor) -> Tensor:
        """The rows, [N, values]."""
        return torch.cat([m.flatten(1) for m in self.maps(images)], 1)

    def shapes(self, size: int) -> tuple[Shape, Shape]:
        """Of the two maps of one image."""
        early, last = self.maps(torch.zeros(1, 3, size, size))
        return tuple(early.shape[1:]), tuple(last.shape[1:])


class FrozenInputs:
    """Rows of all images: as they are, and in some random variants.

    Kept in half precision, whose rounding is far below what a random variant changes.
    """

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows  # [1 + variants, N, values]; the first are the plain ones

    def varied(self, index: int, generator: np.random.Generator) -> Tensor:
        """The row of one of the variants of an image."""
        variant = generator.integers(1, len(self._rows))
        return torch.from_numpy(self._rows[variant, index].astype(np.float32))

    def plain(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """Rows of images as they are, [N, values]."""
        return torch.from_numpy(self._rows[0, indices].astype(np.float32))


def remember(
    frozen: FrozenPart, images: ImageInputs, variants: int, path: Path, device: torch.device
) -> FrozenInputs:
    """Computes all rows, or reads them from a file that an interrupted run has left."""
    if not path.exists():
        _compute(frozen.to(device), images, variants, path, device)
    return FrozenInputs(np.load(path, mmap_mode="r", allow_pickle=False))


def _compute(
    frozen: FrozenPart, images: ImageInputs, variants: int, path: Path, device: torch.device
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    values = frozen(images.plain([0]).to(device)).shape[1]
    shape = (1 + variants, len(images), values)
    rows = np.lib.format.open_memmap(part, mode="w+", dtype=np.float16, shape=shape)
    starts = range(0, len(images), _BATCH)
    for variant, start in tqdm([(v, s) for v in range(1 + variants) for s in starts], "frozen"):
        chosen = range(start, min(start + _BATCH, len(images)))
        batch = _variant(images, chosen, variant) if variant else images.plain(chosen)
        found = frozen(batch.to(device, memory_format=torch.channels_last))
        rows[variant, start : chosen.stop] = found.cpu().numpy()
    rows.flush()
    part.replace(path)


def _variant(images: ImageInputs, chosen: Sequence[int], variant: int) -> Tensor:
    """The same variant in every run, whatever its seed: runs differ in which they draw."""
    return torch.stack([images.varied(i, np.random.default_rng([6, variant, i])) for i in chosen])


class ShortBackbone(Backbone):
    """The trained rest of a backbone, from rows to features."""

    def __init__(self, whole: Backbone, frozen: int, shapes: tuple[Shape, Shape]) -> None:
        stages = OrderedDict(list(whole.stages.named_children())[frozen - 1 :])
        super().__init__(
            nn.Identity(),
            stages,
            whole.head,
            stem_channels=whole.stem_channels,
            feature_dim=whole.feature_dim,
        )
        self.shapes = shapes

    def forward(self, rows: Tensor) -> Tensor:
        """Features of the images behind the rows."""
        return self.from_early(rows)

    def early_features(self, rows: Tensor) -> Tensor:
        """The rows themselves: branch and rest each take their part of them."""
        return rows

    def from_early(self, early: Tensor) -> Tensor:
        """Goes on behind the last frozen stage."""
        return self.head(self.stages(unpack(early, self.shapes)[1]))


class ShortBranch(nn.Module):
    """The domain branch, from rows to domain logits."""

    def __init__(self, branch: DomainBranch, shapes: tuple[Shape, Shape]) -> None:
        super().__init__()
        self.block, self.linear = branch.block, branch.linear
        self.shapes = shapes

    def forward(self, rows: Tensor) -> Tensor:
        """Domain logits; the early map has been thinned out already."""
        return self.linear(self.block(unpack(rows, self.shapes)[0]).mean((2, 3)))


def unpack(rows: Tensor, shapes: tuple[Shape, Shape]) -> tuple[Tensor, Tensor]:
    """The two maps in each row."""
    first, second = rows.split([math.prod(shape) for shape in shapes], 1)
    early, last = first.unflatten(1, shapes[0]), second.unflatten(1, shapes[1])
    return early, last.contiguous(memory_format=torch.channels_last)


class Shortened:
    """A model that takes rows, and the way back to one that takes images."""

    def __init__(self, model: PlaceClassifier, frozen: int, shapes: tuple[Shape, Shape]) -> None:
        self.model = model
        self._backbone, self._branch = model.backbone, getattr(model, "branch", None)
        model.backbone = ShortBackbone(model.backbone, frozen, shapes)
        if isinstance(self._branch, DomainBranch):
            model.branch = ShortBranch(self._branch, shapes)

    def whole(self) -> PlaceClassifier:
        """The same model for images again; all trained layers are shared."""
        self.model.backbone = self._backbone
        if self._branch is not None:
            self.model.branch = self._branch
        return self.model
