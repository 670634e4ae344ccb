# SPDX-License-Identifier: Apache-2.0
"""A model that names what it was not trained on, through vectors of class names.

    linear (CuMix, ridge)   e(x) = g(f(x)), g one linear layer with bias
    convex (ConSE)          e(x) = sum_c p(c|x) v_c of the `kept_classes` most probable classes
    score_y(x) = v_y . e(x),  v_y of length one
    p(y|x)    ~ exp(score_y(x) / (|e(x)| temperature) - seen_penalty [y is a seen class])

The penalty is calibrated stacking (Chao et al., ECCV 2016, arXiv:1605.04253): e(x) is made of the
seen classes, whose names would win nearly always.

Norouzi et al., "Zero-Shot Learning by Convex Combination of Semantic Embeddings", ICLR 2014,
arXiv:1312.5650; CuMix: see the package.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.backbones import Backbone
from newfound_core.errors import ConfigError, DataError
from newfound_core.naming.embeddings import NameEncoder, center, plain_name, span_shares
from newfound_core.naming.word_files import WordVectors

SAME_NAME = 0.999  # cosine from which on two names are one: checkpoints have half precision


@dataclass(frozen=True)
class NamingConfig:
    """How an image becomes a vector among the names."""

    form: Literal["linear", "convex"] = "linear"
    center: bool = True  # subtract the mean of the vocabulary from all names
    kept_classes: int = 10  # of the convex form
    temperature: float = 0.1  # of the confidence: softmax over names of cosine / temperature
    seen_penalty: float = 0.0  # subtracted there from names of seen classes

    def __post_init__(self) -> None:
        if self.form not in ("linear", "convex"):
            raise ConfigError(f"form must be linear or convex, got {self.form!r}")
        if self.kept_classes < 1 or not self.temperature > 0 or not self.seen_penalty >= 0:
            raise ConfigError(f"kept_classes must be 1 or more, temperature positive and "
                              f"seen_penalty not negative, got {self.kept_classes}, "
                              f"{self.temperature} and {self.seen_penalty}")  # fmt: skip


@dataclass(frozen=True)
class Vocabulary:
    """Names that may be answered, as the model scores them."""

    names: tuple[str, ...]
    vectors: Tensor  # [V, width], length one, centred if the model centres
    shares: np.ndarray  # [V] share of each vector that the seen classes tell: `span_shares`
    seen: np.ndarray  # [V] bool: the name of a seen class


@dataclass(frozen=True)
class NameAnswer:
    """A name with its probability, and the share of its vector that the seen classes tell."""

    name: str
    confidence: float
    span_share: float


class NamingModel(nn.Module):
    """Images [N, 3, H, W] to scores of the seen classes [N, seen]; `answer` ranks other names."""

    class_vectors: Tensor
    vocabulary_vectors: Tensor

    def __init__(
        self,
        backbone: Backbone,
        seen: int,
        vocabulary: Sequence[str],
        width: int,
        config: NamingConfig | None = None,
    ) -> None:
        super().__init__()
        if seen < 2:
            raise ConfigError(f"naming needs two seen classes or more, got {seen}")
        if len({plain_name(name) for name in vocabulary}) != len(vocabulary) or not vocabulary:
            raise ConfigError("the names of the vocabulary must be different, and at least one")
        self.config = config or NamingConfig()
        self.backbone = backbone
        self.vocabulary = tuple(vocabulary)
        outputs = width if self.config.form == "linear" else seen
        self.projection = nn.Linear(backbone.feature_dim, outputs)
        self.register_buffer("class_vectors", torch.zeros(seen, width))
        self.register_buffer("vocabulary_vectors", torch.zeros(len(vocabulary), width))

    def options(self) -> dict[str, Any]:
        """What `build_model` makes it from again."""
        names = {"vocabulary": list(self.vocabulary), "width": self.class_vectors.shape[1]}
        return asdict(self.config) | names

    def set_vectors(self, seen: np.ndarray, vocabulary: np.ndarray) -> None:
        """Set the names' vectors, of length one."""
        self.class_vectors.copy_(torch.as_tensor(seen))
        self.vocabulary_vectors.copy_(torch.as_tensor(vocabulary))

    def forward(self, images: Tensor) -> Tensor:
        """Scores of the seen classes."""
        return self.scores(self.backbone(images))

    def scores(self, features: Tensor) -> Tensor:
        """Scores of the seen classes: of features, for training."""
        return self.embed(features) @ self._centred(self.class_vectors).T

    def embed(self, features: Tensor) -> Tensor:
        """The vector of an image among those of names, [N, width]; its length is free."""
        output = self.projection(features)
        if self.config.form == "linear":
            return output
        probability = output.softmax(dim=1)
        kept = min(self.config.kept_classes, probability.shape[1])
        best, classes = probability.topk(kept, dim=1)
        vectors = self._centred(self.class_vectors)[classes]  # [N, kept, width]
        return (best[..., None] * vectors).sum(dim=1)

    def own_vocabulary(self) -> Vocabulary:
        """The vocabulary that the checkpoint came with."""
        vectors = self.vocabulary_vectors.double().cpu().numpy()
        return self._vocabulary(self.vocabulary, vectors)

    def encode(self, names: Sequence[str], words: WordVectors | None = None) -> Vocabulary:
        """Another vocabulary; without `words` its words must be among the checkpoint's."""
        if not names:
            raise DataError("the vocabulary holds no name")
        encoder = NameEncoder(words or self._own_words())
        encoded = encoder.encode(names)
        if encoded.vectors.shape[1] != self.class_vectors.shape[1]:
            raise DataError(
                f"the word vectors have {encoded.vectors.shape[1]} numbers, those of the model "
                f"{self.class_vectors.shape[1]}: use the file that it was made with"
            )
        return self._vocabulary(tuple(names), encoded.vectors)

    @torch.inference_mode()
    def log_probabilities(self, features: Tensor, vocabulary: Vocabulary) -> Tensor:
        """Of the names, [N, V]."""
        embedding = functional.normalize(self.embed(features), dim=1)
        cosine = embedding @ vocabulary.vectors.to(embedding).T
        penalty = self.config.seen_penalty * torch.from_numpy(vocabulary.seen).to(cosine)
        return (cosine / self.config.temperature - penalty).log_softmax(dim=1)

    def answer(
        self,
        features: Tensor,
        vocabulary: Vocabulary,
        count: int,
        exclude: Collection[str] = (),
        min_span: float = 0.0,
    ) -> list[NameAnswer]:
        """Rank names for one object; several views of it [N, feature_dim] vote by their mean
        log probability. Names in `exclude` and those with a smaller share than `min_span` are
        left out.
        """
        left_out = {plain_name(name) for name in exclude}
        vote = self.log_probabilities(features, vocabulary).mean(dim=0)
        allowed = torch.tensor(
            [plain_name(n) not in left_out and share >= min_span
             for n, share in zip(vocabulary.names, vocabulary.shares, strict=True)]
        )  # fmt: skip
        if not allowed.any():
            return []
        vote = vote.masked_fill(~allowed.to(vote.device), float("-inf")).softmax(dim=0)
        best, rows = vote.topk(min(count, int(allowed.sum())))
        return [
            NameAnswer(vocabulary.names[row], p, float(vocabulary.shares[row]))
            for p, row in zip(best.tolist(), rows.tolist(), strict=True)
        ]

    def _vocabulary(self, names: tuple[str, ...], vectors: np.ndarray) -> Vocabulary:
        seen = self._centred(self.class_vectors).double().cpu().numpy()
        if self.config.center:
            vectors = center(vectors, self._mean().double().cpu().numpy())
        same = (vectors @ seen.T).max(axis=1) > SAME_NAME
        shares = span_shares(vectors, seen)
        return Vocabulary(names, torch.from_numpy(vectors).float(), shares, same)

    def _own_words(self) -> WordVectors:
        """Single words, and phrases with _ between their words."""
        rows = {plain_name(n).replace(" ", "_"): i for i, n in enumerate(self.vocabulary)}
        return WordVectors(self.vocabulary_vectors.cpu().numpy(), rows)

    def _mean(self) -> Tensor:
        return self.vocabulary_vectors.mean(dim=0)

    def _centred(self, vectors: Tensor) -> Tensor:
        if not self.config.center:
            return vectors
        return functional.normalize(vectors - self._mean(), dim=1)


def ridge_projection(
    prototypes: np.ndarray, vectors: np.ndarray, strength: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weight [width, D] and bias [width] that map prototypes [N, D] of classes to their vectors.

    argmin |(X - mean X) W' - (V - mean V)|^2 + strength |W|^2 in double precision. Rows of a
    classifier serve as prototypes, scaled to length one: the classes of ImageNet for nothing.
    """
    if not strength > 0:
        raise ConfigError(f"the strength of the ridge must be positive, got {strength}")
    x, v = np.asarray(prototypes, np.float64), np.asarray(vectors, np.float64)
    x_mean, v_mean = x.mean(axis=0), v.mean(axis=0)
    x = x - x_mean
    gram = x.T @ x + strength * np.eye(x.shape[1])
    weight = np.linalg.solve(gram, x.T @ (v - v_mean)).T
    return weight, v_mean - weight @ x_mean
