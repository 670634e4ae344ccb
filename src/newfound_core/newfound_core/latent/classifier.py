# SPDX-License-Identifier: Apache-2.0
"""The network of mDA, its loss, and what watches over its training."""

import copy
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from newfound_core.backbones import Backbone
from newfound_core.conversion import DomainMixture, convert_batchnorm
from newfound_core.domain_branch import assignment_entropies
from newfound_core.errors import BackboneError, ConfigError, DataError, TrainingError
from newfound_core.latent.branches import UNKNOWN, LatentConfig, Side, build_branches
from newfound_core.normalization import AssignmentContext, DomainBatchNorm
from newfound_core.onda.refinement import mean_entropy
from newfound_core.rejection import build_rejection, split_unknown


class LatentOutput(NamedTuple):
    """Output of a classifier with latent domains for N images."""

    logits: Tensor  # [N, classes]
    domain_logits: Tensor  # [N, k]; zero where a side has one domain or is not the image's
    domain_weights: Tensor  # [N, k], the assignment that was used; source domains first


class LatentClassifier(nn.Module):
    """Images to logits, normalised by the latent domains that each image belongs to.

    In evaluation mode images are of the target unless `is_target` says otherwise. In training it
    must be given; `domains` are labels within the image's side, `UNKNOWN` (-1) where not known.
    """

    def __init__(
        self,
        backbone: Backbone,
        classes: int,
        config: LatentConfig | None = None,
        *,
        output_norm: bool = False,
        rejection: Mapping[str, Any] | None = None,
        source_confidence: float | None = None,
    ) -> None:
        super().__init__()
        if classes < 2:
            raise ConfigError(f"a classifier needs at least 2 classes, got {classes}")
        self.config = config or LatentConfig()
        self.classes, self.domains = classes, self.config.domains
        self.output_norm, self.source_confidence = output_norm, source_confidence
        self.assignment = AssignmentContext()
        # Before the backbone: ONDA's `last:n` then counts layers with domains only, and what the
        # branches look at stays as it is.
        self.branches = nn.ModuleDict(build_branches(backbone, self.config))
        self.backbone = backbone
        for name, stage in list(backbone.stages.named_children())[backbone.branch_point :]:
            new = convert_batchnorm(stage, self.domains, self.assignment)
            setattr(backbone.stages, name, new)
        backbone.head = convert_batchnorm(backbone.head, self.domains, self.assignment)
        self.classifier = nn.Linear(backbone.feature_dim, classes)
        norm = nn.BatchNorm1d(classes) if output_norm else nn.Identity()
        self.norm = convert_batchnorm(norm, self.domains, self.assignment)
        self.rejection = build_rejection(backbone.feature_dim, classes, rejection)
        if not self.domain_layers():
            raise BackboneError(
                f"{backbone.name or 'this network'} has no batch normalisation behind its stem, "
                "so there is nothing in which domains could differ: choose a network that has "
                "(alexnet_bn instead of alexnet)"
            )
        self._mixture = DomainMixture(self)

    def domain_layers(self) -> list[DomainBatchNorm]:
        """The layers with statistics of each domain, in order."""
        return [module for module in self.modules() if isinstance(module, DomainBatchNorm)]

    @property
    def adaptive_layers(self) -> str:
        """Layers that ONDA moves: those with domains."""
        return f"last:{len(self.domain_layers())}"

    def options(self) -> dict[str, Any]:
        """What makes the same model again, besides its backbone, classes and tensors."""
        own = {"output_norm": self.output_norm, "source_confidence": self.source_confidence}
        rejection = None if self.rejection is None else self.rejection.options()
        return asdict(self.config) | own | ({"rejection": rejection} if rejection else {})

    def forward(
        self, images: Tensor, is_target: Tensor | None = None, domains: Tensor | None = None
    ) -> LatentOutput:
        """Logits, normalised by each image's mixture of the domains of its side."""
        if self.training:
            self._check_batch(images, is_target)
        early = self.backbone.early_features(images)
        logits, weights = self._assign(early, is_target, domains)
        mixed = self._mixture.of(weights[0]) if self._serves(images) else {}
        with self.assignment.use(weights, mixed):
            features = self.backbone.from_early(early)
            classes = self.norm(self.classifier(features))
        if self.rejection is not None:
            classes = self.rejection(features, classes)
        return LatentOutput(classes, logits, weights)

    def _serves(self, images: Tensor) -> bool:
        """Whether this is one image of a stream; a traced graph must hold for any number."""
        traced = torch.compiler.is_compiling()
        return not (traced or self.training or torch.is_grad_enabled()) and len(images) == 1

    def _assign(
        self, early: Tensor, is_target: Tensor | None, domains: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Domain logits and weights of both sides, [N, k] each."""
        if is_target is None and domains is None:
            # One side for all: no rows to pick, which a traced graph could not.
            return self._of_side("target", early, None)
        count = early.shape[0]
        target = torch.ones(count, dtype=torch.bool, device=early.device)
        target = target if is_target is None else is_target.to(early.device)
        logits = early.new_zeros(count, self.domains)
        weights = early.new_zeros(count, self.domains)
        sides: dict[Side, Tensor] = {"source": ~target, "target": target}
        for side, rows in sides.items():
            if bool(rows.any()):
                known = None if domains is None else domains.to(early.device)[rows]
                found = self._of_side(side, early[rows], known)
                logits = logits.index_put((rows,), found[0].to(logits.dtype))
                weights = weights.index_put((rows,), found[1].to(weights.dtype))
        return logits, weights

    def _of_side(self, side: Side, early: Tensor, domains: Tensor | None) -> tuple[Tensor, Tensor]:
        columns = self.config.columns(side)
        own = columns.stop - columns.start
        if own == 0:
            raise DataError(
                "the source domains of this model were dropped, since it serves target images: "
                "use the checkpoint that it was made from for images of the source"
            )
        if side in self.branches:
            logits = self.branches[side](early)
        else:
            logits = early.new_zeros(early.shape[0], own)
        weights = logits.softmax(-1)
        if domains is not None:
            weights = _fixed(weights, domains, side)
        padding = (columns.start, self.domains - columns.stop)
        return functional.pad(logits, padding), functional.pad(weights, padding)

    def _check_batch(self, images: Tensor, is_target: Tensor | None) -> None:
        if is_target is None:
            raise DataError("training needs to know which images are of the target: is_target")
        if is_target.shape != images.shape[:1] or is_target.dtype != torch.bool:
            raise DataError(f"is_target must be one bool for each of {len(images)} images")
        found = {"source": int((~is_target).sum()), "target": int(is_target.sum())}
        needed = {"source": self.config.source_domains, "target": self.config.target_domains}
        for side, count in found.items():
            if count < 2 * needed[side]:
                raise DataError(
                    f"a batch with {count} {side} images is too small for {needed[side]} {side} "
                    f"domains: at least {2 * needed[side]} are needed, since one image has no "
                    "variance. Choose a larger batch or fewer domains"
                )

    def loss_terms(
        self,
        output: LatentOutput,
        labels: Tensor,
        is_target: Tensor,
        domains: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """The terms of the loss, weighted; `labels` [N] of target images are not looked at."""
        source, target = ~is_target, is_target
        config, logits = self.config, output.logits
        terms = {
            "classes": functional.cross_entropy(logits[source], labels[source]),
            "target_entropy": config.target_entropy_weight * mean_entropy(logits[target]),
        }
        certainty, balance = logits.new_zeros(()), logits.new_zeros(())
        for side, rows in (("source", source), ("target", target)):
            if side not in self.branches:
                continue
            found = output.domain_logits[rows][:, config.columns(side)]  # type: ignore[arg-type]
            balance = balance + assignment_entropies(found)[0]
            named = _named(domains, rows)
            if not bool(named.all()):
                certainty = certainty + assignment_entropies(found[~named])[1]
            if bool(named.any()) and domains is not None:
                loss = functional.cross_entropy(found[named], domains[rows][named])
                terms[f"{side}_domains"] = config.domain_loss_weight * loss
        terms["certainty"] = config.certainty_weight * certainty
        terms["balance"] = -config.balance_weight * balance
        return terms

    @torch.no_grad()
    def classify(
        self, images: Tensor, side: Side = "target", domains: Tensor | None = None
    ) -> Tensor:
        """Probabilities [N, classes] of images of one side, in evaluation mode."""
        is_target = torch.full(images.shape[:1], side == "target", device=images.device)
        output = self(images, is_target, domains)
        return split_unknown(output.logits, self.classes)[0]

    def for_target(self) -> "LatentClassifier":
        """A copy without the source's domains and branch, which serves target images alone."""
        model = copy.deepcopy(self)
        keep = self.config.columns("target")
        if "source" in model.branches:
            del model.branches["source"]
        for layer in model.domain_layers():
            layer.running_mean = layer.running_mean[keep].clone()
            layer.running_var = layer.running_var[keep].clone()
            layer.domains = self.config.target_domains
        model.config = replace(self.config, source_domains=0)
        model.domains = model.config.domains
        model._mixture = DomainMixture(model)
        return model


def _fixed(weights: Tensor, domains: Tensor, side: Side) -> Tensor:
    """Weights that are one-hot where the domain is known."""
    count = weights.shape[1]
    if domains.shape != weights.shape[:1]:
        raise DataError(f"got {len(domains)} domain labels for {len(weights)} {side} images")
    if len(domains) and not UNKNOWN <= int(domains.min()) <= int(domains.max()) < count:
        raise DataError(
            f"domain labels of {side} images must be {UNKNOWN} (unknown) or 0 to {count - 1}, got "
            f"{int(domains.min())} to {int(domains.max())}"
        )
    one_hot = functional.one_hot(domains.long().clamp(min=0), count).to(weights.dtype)
    return torch.where((domains >= 0)[:, None], one_hot, weights)


def _named(domains: Tensor | None, rows: Tensor) -> Tensor:
    if domains is None:
        return torch.zeros(int(rows.sum()), dtype=torch.bool, device=rows.device)
    return domains[rows] >= 0


def used_domains(weights: Tensor) -> float:
    """Effective number of domains in use, exp(H(mean w)), for assignments [N, k]."""
    return float(torch.special.entr(weights.double().mean(0)).sum().exp())


def require_classes(mean_prediction: Tensor) -> None:
    """A TrainingError if the mean prediction [classes] of the target has collapsed."""
    entropy = float(torch.special.entr(mean_prediction.double()).sum())
    limit = math.log(len(mean_prediction)) / 2
    if entropy < limit:
        share, label = mean_prediction.max(0)
        raise TrainingError(
            f"the classes of the target have collapsed: {float(share):.0%} of its images are "
            f"taken for class {int(label)} (entropy of the mean prediction {entropy:.2f}, below "
            f"{limit:.2f}). Lower target_entropy_weight or the learning rates, or train nothing "
            "(method clusters)"
        )
