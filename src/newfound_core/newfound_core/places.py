# SPDX-License-Identifier: Apache-2.0
"""Place categorisation in unseen buildings: BN, WBN and BSF, and a Bayes filter along a video.

Weighted Batch Normalisation: M. Mancini, S. Rota Bulò, B. Caputo, E. Ricci, "Robust Place
Categorization With Deep Domain Generalization", RA-L 2018, arXiv:1805.12048; thesis 2.5.2,
equations 2.8 to 2.11. With statistics mu_j, var_j of k source domains and the domain branch's w,

    x' = gamma sum_j w_j (x - mu_j) / sqrt(var_j + eps) + beta                              (2.10)
    L  = CE(f_C(x), y) + lambda CE(f_D(x), d)                                               (2.11)

where in training w is the domain label (WBN*) or softmax(f_D(x)) (latent domains). (2.11 is
printed without the minus of its second term.)

Best Sources Forward: the same authors, "Best sources forward: domain generalization through
source-specific nets", ICIP 2018, arXiv:1806.05810; thesis 2.5.4, equations 2.12 to 2.14. With a
classifier f_j for each source domain,

    z = (1 - alpha) sum_j w_j f_j(x) + (alpha / k) sum_j f_j(x)                             (2.14)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.backbones import Backbone
from newfound_core.conversion import DomainMixture, convert_batchnorm
from newfound_core.domain_branch import (
    DomainBranch,
    assignment_entropies,
    assignment_from,
    check_softening,
)
from newfound_core.errors import BackboneError, ConfigError, DataError
from newfound_core.normalization import AssignmentContext, DomainBatchNorm
from newfound_core.rejection import Rejection, build_rejection, split_unknown


class PlaceOutput(NamedTuple):
    """Output of a classifier for N images."""

    logits: Tensor  # [N, places]
    domain_logits: Tensor  # [N, domains]; no columns for a model without domains
    domain_weights: Tensor  # [N, domains], the assignment that was used


class PlacePrediction(NamedTuple):
    """Predicted places of N images."""

    probabilities: Tensor  # [N, places]
    domain_weights: Tensor  # [N, domains], how much each source domain contributed


class PlaceClassifier(nn.Module):
    """A backbone and a linear classifier: the baseline BN, and the base of the others.

    `rejection`, where there is one, adds a logit of "unknown" (`newfound_core.rejection`).
    `source_confidence` is the mean probability of the answer on images of its sources that it was
    not trained on; None: not known, and ONDA adapts without asking whether it is needed.
    """

    def __init__(self, backbone: Backbone, places: int) -> None:
        super().__init__()
        if places < 2:
            raise ConfigError(f"a place classifier needs at least 2 places, got {places}")
        self.backbone = backbone
        self.places = places
        self.classifier: nn.Module = nn.Linear(backbone.feature_dim, places)
        self.rejection: Rejection | None = None
        self.source_confidence: float | None = None

    def forward(self, images: Tensor, domains: Tensor | None = None) -> PlaceOutput:
        """Logits of the places; domain labels are not needed."""
        none = images.new_zeros(images.shape[0], 0)  # not len: a traced graph would freeze it
        features = self.backbone(images)
        return PlaceOutput(self._answer(features, self.classifier(features)), none, none)

    def add_rejection(self, options: Mapping[str, Any] | None) -> None:
        """Make room for the tensors of a rejection."""
        self.rejection = build_rejection(self.backbone.feature_dim, self.places, options)

    def _answer(self, features: Tensor, logits: Tensor) -> Tensor:
        return logits if self.rejection is None else self.rejection(features, logits)

    def loss_terms(
        self, output: PlaceOutput, labels: Tensor, domains: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The terms of the training loss, already weighted; their sum is minimised."""
        return {"places": functional.cross_entropy(output.logits, labels)}

    @torch.no_grad()
    def categorize(self, images: Tensor) -> PlacePrediction:
        """Probabilities of the places, and which sources they lean on."""
        output = self(images)
        known, _ = split_unknown(output.logits, self.places)
        return PlacePrediction(known, output.domain_weights)


BnClassifier = PlaceClassifier


@dataclass(frozen=True)
class WbnConfig:
    """Weighted batch normalisation: statistics per source domain, mixed by the branch."""

    latent: bool = False  # False: domains are labelled in training (WBN* in the thesis)
    domain_loss_weight: float = 1.0  # lambda, with labelled domains
    # mDA's regularisers, with latent domains: all domains used, each image in one of them.
    balance_weight: float = 0.0  # lambda_B
    certainty_weight: float = 0.0  # lambda_E
    # At test time only; to be chosen by holding out source domains in training.
    assignment_smoothing: float = 0.0
    assignment_temperature: float = 1.0
    branch_reduction: int = 4  # step of the branch's grid; the thesis has 1 on ResNet

    def __post_init__(self) -> None:
        check_softening(self.assignment_temperature, self.assignment_smoothing)


class WbnClassifier(PlaceClassifier):
    """Normalisation behind the branch has statistics per domain; before it, it is plain.

    The assignment of an image is its domain label in training (one-hot) or, with latent
    domains and always at test time, the softmax of the domain branch.
    """

    def __init__(
        self, backbone: Backbone, places: int, domains: int, config: WbnConfig | None = None
    ) -> None:
        super().__init__(backbone, places)
        self.config = config or WbnConfig()
        self.domains = domains
        self.assignment = AssignmentContext()
        behind_branch = list(backbone.stages.named_children())[backbone.branch_point :]
        for name, stage in behind_branch:
            new = convert_batchnorm(stage, domains, self.assignment)
            setattr(backbone.stages, name, new)
        backbone.head = convert_batchnorm(backbone.head, domains, self.assignment)
        _check_converted(backbone, domains)
        self.branch = DomainBranch.of(backbone, domains, self.config.branch_reduction)
        self._mixture = DomainMixture(backbone)

    def forward(self, images: Tensor, domains: Tensor | None = None) -> PlaceOutput:
        """Logits of the places, normalised by the image's mixture of domains."""
        early = self.backbone.early_features(images)
        domain_logits = self.branch(early)
        weights = self._weights(domain_logits, domains)
        mixed = self._mixture.of(weights[0]) if self._serves(images) else {}
        with self.assignment.use(weights, mixed):
            features = self.backbone.from_early(early)
        logits = self._answer(features, self.classifier(features))
        return PlaceOutput(logits, domain_logits, weights)

    def _serves(self, images: Tensor) -> bool:
        """Whether this is one image of a stream; a traced graph must hold for any number."""
        traced = torch.compiler.is_compiling()
        return not (traced or self.training or torch.is_grad_enabled()) and len(images) == 1

    def _weights(self, domain_logits: Tensor, domains: Tensor | None) -> Tensor:
        if not self.training:
            config = self.config
            return assignment_from(
                domain_logits, config.assignment_temperature, config.assignment_smoothing
            )
        if self.config.latent:
            return domain_logits.softmax(-1)
        return hard_assignment(domains, domain_logits)

    def loss_terms(
        self, output: PlaceOutput, labels: Tensor, domains: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Places, and either the labelled domains or the regularisers of latent ones."""
        terms = super().loss_terms(output, labels)
        if self.config.latent:
            balance, certainty = assignment_entropies(output.domain_logits)
            terms["balance"] = -self.config.balance_weight * balance
            terms["certainty"] = self.config.certainty_weight * certainty
        else:
            terms["domains"] = self.config.domain_loss_weight * domain_loss(output, domains)
        return terms


def _check_converted(backbone: Backbone, domains: int) -> None:
    """Refuse several domains without a layer that tells them apart: that would be plain BN."""
    if domains > 1 and not any(isinstance(m, DomainBatchNorm) for m in backbone.modules()):
        raise BackboneError(
            f"{backbone.name or 'this network'} has no batch normalisation behind the domain "
            f"branch, so there is nothing in which {domains} domains could differ: choose a "
            "network that has (alexnet_bn instead of alexnet), or the method bsf"
        )


@dataclass(frozen=True)
class BsfConfig:
    """Best sources forward: one classifier per source domain, mixed by the branch."""

    uniform_share: float = 0.25  # alpha: how much all classifiers count alike
    domain_loss_weight: float = 0.5  # lambda
    assignment_temperature: float = 1.0
    branch_reduction: int = 4

    def __post_init__(self) -> None:
        check_softening(self.assignment_temperature, self.uniform_share)


class BsfClassifier(PlaceClassifier):
    """Shared features, one linear classifier per source domain.

    test:  z = (1 - alpha) sum_j w_j f_j(x) + alpha / k sum_j f_j(x)
    train: with probability alpha per image w = 1 / k, else its domain label
    """

    def __init__(
        self, backbone: Backbone, places: int, domains: int, config: BsfConfig | None = None
    ) -> None:
        super().__init__(backbone, places)
        self.config = config or BsfConfig()
        self.domains = domains
        self.classifier = SourceClassifiers(backbone.feature_dim, places, domains)
        self.branch = DomainBranch.of(backbone, domains, self.config.branch_reduction)

    def forward(self, images: Tensor, domains: Tensor | None = None) -> PlaceOutput:
        """Logits of the places, a mixture of what the sources' classifiers say."""
        early = self.backbone.early_features(images)
        domain_logits = self.branch(early)
        features = self.backbone.from_early(early)
        each = self.classifier(features)  # [N, domains, places]
        weights = self._weights(domain_logits, domains)
        logits = self._answer(features, (weights[..., None] * each).sum(1))
        return PlaceOutput(logits, domain_logits, weights)

    def _weights(self, domain_logits: Tensor, domains: Tensor | None) -> Tensor:
        alpha = self.config.uniform_share
        if not self.training:
            return assignment_from(domain_logits, self.config.assignment_temperature, alpha)
        weights = hard_assignment(domains, domain_logits)
        uniform = torch.rand(len(weights), 1, device=weights.device) < alpha
        return torch.where(uniform, torch.full_like(weights, 1 / self.domains), weights)

    def loss_terms(
        self, output: PlaceOutput, labels: Tensor, domains: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Places and domains."""
        terms = super().loss_terms(output, labels)
        terms["domains"] = self.config.domain_loss_weight * domain_loss(output, domains)
        return terms


class SourceClassifiers(nn.Module):
    """One linear classifier per domain: [N, features] to [N, domains, places]."""

    def __init__(self, features: int, places: int, domains: int) -> None:
        super().__init__()
        bound = features**-0.5  # as nn.Linear
        self.weight = nn.Parameter(torch.empty(places, domains, features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(places, domains).uniform_(-bound, bound))

    def forward(self, features: Tensor) -> Tensor:
        """Logits of every classifier."""
        return torch.einsum("nf,pdf->ndp", features, self.weight) + self.bias.T


def hard_assignment(domains: Tensor | None, domain_logits: Tensor) -> Tensor:
    """One-hot weights from domain labels, which training with known domains must have."""
    count = domain_logits.shape[1]
    if domains is None:
        raise DataError(
            "training with labelled domains needs the domain label of every image: call "
            "model(images, domains), or choose latent domains"
        )
    if domains.shape != domain_logits.shape[:1]:
        raise DataError(
            f"got domain labels of shape {list(domains.shape)} for {len(domain_logits)} images"
        )
    if len(domains) and not 0 <= int(domains.min()) <= int(domains.max()) < count:
        raise DataError(
            f"domain labels must be 0 to {count - 1}, got {int(domains.min())} to "
            f"{int(domains.max())}"
        )
    return functional.one_hot(domains.long(), count).to(domain_logits.dtype)


def domain_loss(output: PlaceOutput, domains: Tensor | None) -> Tensor:
    """Cross entropy of the domain branch."""
    if domains is None:
        raise DataError("the domain loss needs the domain label of every image")
    return functional.cross_entropy(output.domain_logits, domains)


def parameter_groups(
    model: nn.Module, lr: float = 1e-3, new_lr: float = 1e-2
) -> list[dict[str, object]]:
    """Groups for the optimiser: the backbone at `lr`, classifier and branch at `new_lr`."""
    new: list[nn.Parameter] = []
    pretrained: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        fresh = name.startswith(("classifier.", "branch."))
        (new if fresh else pretrained).append(parameter)
    return [{"params": pretrained, "lr": lr}, {"params": new, "lr": new_lr}]


FLOOR = 1e-6  # no observation excludes a place for good


class PlaceFilter:
    """Bayes filter: belief = normalise(observation * transition(belief)).

    Between two frames the place changes with `change_probability`, to any other one alike.
    The network's probabilities serve as the observation: with a uniform prior over places
    they are proportional to the likelihood.
    """

    def __init__(self, places: int, change_probability: float = 0.05) -> None:
        if places < 2:
            raise ConfigError(f"a place filter needs at least 2 places, got {places}")
        if not 0 < change_probability < 1:
            raise ConfigError(f"change_probability must be in (0, 1), got {change_probability}")
        self.places = places
        self.change_probability = change_probability
        self.belief = self._uniform()

    def _uniform(self) -> npt.NDArray[np.float64]:
        return np.full(self.places, 1 / self.places)

    def predict(self) -> npt.NDArray[np.float64]:
        """The belief before the next observation."""
        moving = self.change_probability * self.belief
        return self.belief - moving + (moving.sum() - moving) / (self.places - 1)

    def update(self, probabilities: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Take in what the network says of one frame, [places]; returns the new belief."""
        observed = np.asarray(probabilities, dtype=np.float64)
        if observed.shape != (self.places,):
            raise DataError(f"expected {self.places} probabilities, got {list(observed.shape)}")
        if not np.isfinite(observed).all() or observed.min() < 0 or observed.sum() <= 0:
            raise DataError(f"probabilities must be finite and not negative, got {observed}")
        posterior = self.predict() * np.maximum(observed / observed.sum(), FLOOR)
        self.belief = posterior / posterior.sum()
        return self.belief.copy()

    def reset(self) -> None:
        """Forget where the robot was."""
        self.belief = self._uniform()
