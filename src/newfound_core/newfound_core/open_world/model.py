# SPDX-License-Identifier: Apache-2.0
"""A network, the form of its features, and an open-world head: one model."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.open_world.head import Decision, OpenWorldHead
from newfound_core.open_world.heads import head_from_options


@dataclass(frozen=True)
class EmbeddingConfig:
    """Normalisation and scale of the features that the head sees."""

    # On a pretrained network this is worth ten points of OWR-H: the length of a feature says
    # more about the image than about the class.
    normalize: bool = True
    scale: float = 10.0  # length of a normalised feature; DeepNNO's scores depend on it

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ConfigError(f"scale must be positive and finite, got {self.scale}")


class OpenWorldModel(nn.Module):
    """Network and head: images in, decisions out."""

    def __init__(
        self, backbone: nn.Module, head: OpenWorldHead, embedding: EmbeddingConfig | None = None
    ) -> None:
        super().__init__()
        self.backbone = backbone  # images [N, 3, H, W] to features [N, D]
        self.head = head
        self.embedding = embedding or EmbeddingConfig()

    @property
    def labels(self) -> list[str]:
        """Names of the known classes, in the order of their indices."""
        return list(self.head.labels)

    def forward(self, images: Tensor) -> Tensor:
        """Return the embedding of images, [N, D]: what is trained and exported."""
        return self.shaped(self.backbone(images))

    def embed(self, images: Tensor) -> Tensor:
        """Return the embedding of images, [N, D]."""
        return self(images)

    def shaped(self, features: Tensor) -> Tensor:
        """Normalise and scale the network's features, if so configured."""
        if not self.embedding.normalize:
            return features
        return functional.normalize(features, dim=1) * self.embedding.scale

    @torch.no_grad()
    def decide(self, images: Tensor) -> Decision:
        """Name each image, or call it unknown."""
        return self.head.decide(self(images))

    @torch.no_grad()
    def decide_features(self, features: Tensor) -> Decision:
        """Decide on features [N, D] of the network, as pooled from regions of one image."""
        return self.head.decide(self.shaped(features))

    def options(self) -> dict[str, Any]:
        """Return everything but the backbone and the tensors (`state_dict`), fit for JSON."""
        return {"embedding": asdict(self.embedding), "head": self.head.options()}

    @classmethod
    def from_options(cls, backbone: nn.Module, options: Mapping[str, Any]) -> "OpenWorldModel":
        """Make the model that `options` came from, ready for `load_tensors`."""
        try:
            embedding = EmbeddingConfig(**options["embedding"])
            return cls(backbone, head_from_options(options["head"]), embedding)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"not the options of an open-world model: {error!r}") from error

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over saved tensors strictly: all, no others, of the right shapes and types."""
        own = {key: value for key, value in tensors.items() if not key.startswith("head.")}
        expected = {f"backbone.{key}" for key in self.backbone.state_dict()}
        if wrong := sorted(expected ^ set(own)):
            raise CheckpointError(
                f"the tensors of the backbone do not fit: {', '.join(wrong[:5])} "
                f"({len(wrong)} missing or not expected)"
            )
        prefix = len("head.")
        heads = {key[prefix:]: value for key, value in tensors.items() if key.startswith("head.")}
        self.head.load_tensors(heads)
        try:
            self.backbone.load_state_dict({k.removeprefix("backbone."): v for k, v in own.items()})
        except RuntimeError as error:
            raise CheckpointError(f"the tensors of the backbone do not fit: {error}") from error
