# SPDX-License-Identifier: Apache-2.0
"""Class means: online while the features drift, exact at the end of a step."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from newfound_core.errors import DataError

Batch = tuple[Tensor, Tensor]  # features [N, D], class indices [N]


class ClassMeans(nn.Module):
    """One mean feature per class, followed online without gradient.

    Counts are those of the running average, not of the data: with counts that only grow, the
    means would stay near where the untrained network put them. Call `restart_counts` at the
    start of each epoch.
    """

    value: Tensor  # [C, D]
    count: Tensor  # [C], samples behind the running average
    seen: Tensor  # [C], whether the class has a mean at all

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.register_buffer("value", torch.zeros(0, dimension))
        self.register_buffer("count", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(0, dtype=torch.bool))

    def __len__(self) -> int:
        return len(self.value)

    @property
    def dimension(self) -> int:
        """Length of a feature."""
        return self.value.shape[1]

    def extend(self, classes: int) -> None:
        """Make room for more classes; they have no mean until samples of them come."""
        self.value = torch.cat([self.value, self.value.new_zeros(classes, self.dimension)])
        self.count = torch.cat([self.count, self.count.new_zeros(classes)])
        self.seen = torch.cat([self.seen, self.seen.new_zeros(classes)])

    def forget(self, index: int) -> None:
        """Remove one class; the classes after it move down by one."""
        keep = torch.arange(len(self), device=self.value.device) != index
        self.value, self.count, self.seen = self.value[keep], self.count[keep], self.seen[keep]

    def restart_counts(self) -> None:
        """Let the next samples of each class replace its mean."""
        self.count = torch.zeros_like(self.count)

    @torch.no_grad()
    def update(self, features: Tensor, labels: Tensor) -> None:
        """mean_c <- (n_c mean_c + n_B mean_B) / (n_c + n_B) for the classes in the batch."""
        sums = FeatureSums(len(self), self.dimension, self.value.device)
        sums.add(features, labels)
        self.merge(sums)

    @torch.no_grad()
    def start_unseen(self, features: Tensor, labels: Tensor) -> None:
        """Give classes that have no mean yet the one of this batch, counting nothing."""
        fresh = finite_rows(features) & ~self.seen[labels]
        if not fresh.any():
            return
        sums = FeatureSums(len(self), self.dimension, self.value.device)
        sums.add(features[fresh], labels[fresh])
        self.merge(sums)
        self.count[sums.count > 0] = 0

    @torch.no_grad()
    def merge(self, sums: "FeatureSums") -> None:
        """Average in a data set's samples; classes without any keep their mean."""
        total = self.count + sums.count
        weighted = self.count[:, None] * self.value.double() + sums.total
        merged = weighted / total.clamp_min(1)[:, None]
        touched = sums.count > 0
        self.value = torch.where(touched[:, None], merged.to(self.value.dtype), self.value)
        self.count, self.seen = total, self.seen | touched


class FeatureSums:
    """Sums of a data set's features in double precision, gathered batch by batch."""

    def __init__(self, classes: int, dimension: int, device: torch.device | str = "cpu") -> None:
        self.total = torch.zeros(classes, dimension, dtype=torch.float64, device=device)
        self.squares = torch.zeros(dimension, dtype=torch.float64, device=device)
        self.count = torch.zeros(classes, dtype=torch.int64, device=device)

    @torch.no_grad()
    def add(self, features: Tensor, labels: Tensor) -> None:
        """Add a batch; samples with a NaN or an infinity are left out."""
        check_batch(features, labels, classes=len(self.count), dimension=len(self.squares))
        finite = finite_rows(features)
        rows, labels = features[finite].double(), labels[finite]
        self.total.index_add_(0, labels, rows)
        self.squares += rows.square().sum(0)
        self.count.index_add_(0, labels, torch.ones_like(labels))

    def add_all(self, batches: Iterable[Batch]) -> "FeatureSums":
        """Add every batch of a data set."""
        for features, labels in batches:
            self.add(features, labels)
        return self

    def variance(self) -> float:
        """Variance of the features around their common mean, averaged over dimensions."""
        samples = max(int(self.count.sum()), 1)
        mean = self.total.sum(0) / samples
        return float((self.squares / samples - mean.square()).clamp_min(0).mean())


def finite_rows(features: Tensor) -> Tensor:
    """Which samples hold neither NaN nor infinity, as [N] booleans."""
    return features.detach().isfinite().all(dim=1)


def check_batch(features: Tensor, labels: Tensor, *, classes: int, dimension: int) -> None:
    """Raise DataError unless there is one known label per feature of the right length."""
    if features.ndim != 2 or features.shape[1] != dimension:
        raise DataError(
            f"features have shape {tuple(features.shape)}, expected [N, {dimension}]. "
            "The network in front of the head was probably changed."
        )
    if labels.shape != features.shape[:1] or labels.dtype != torch.int64:
        raise DataError(
            f"labels have shape {tuple(labels.shape)} and type {labels.dtype}, expected "
            f"[{len(features)}] and torch.int64: one class index per feature."
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise DataError(
            f"labels reach from {int(labels.min())} to {int(labels.max())}, but the head knows "
            f"{classes} classes. Extend it by the new classes first."
        )
