# SPDX-License-Identifier: Apache-2.0
"""Class means, and distances to many of them at video rate.

Means follow the features online and are exact at the end of a step; thesis 3.5.3, equation 3.21:

    mu_c <- (n_c mu_c + n_B mu_B) / (n_c + n_B)                                             (3.21)

300 regions against 1,000 means of 1,280 dimensions are 0.8 GFLOP, as much as the network that
makes the features. From `SHORTLIST_FROM` classes on, a CPU therefore screens the classes in the
`SCREEN_DIMENSIONS` principal directions of the means and computes full distances to a shortlist
only. Measured with EfficientNet-Lite0 features of CIFAR-100 against 1,000 k-means centres, which
crowd more than classes do: a shortlist of 8 holds the nearest mean for 99.7 % of L2-normalised
features (else one at most 6 % farther) and 98.3 % of raw ones.
"""

import warnings
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from newfound_core.errors import DataError

# "norm": ||r - c|| / sigma; "squared": ||r - c||² / sigma², as printed in the thesis;
# "squared_summed": the same with the variances of the dimensions summed, not averaged.
DistanceForm = Literal["norm", "squared", "squared_summed"]

# Below this a squared distance has no useful gradient: its root would divide by zero.
SMALLEST_SQUARE = 1e-12


def squared_distances(rows: Tensor, columns: Tensor) -> Tensor:
    """Return ||r - c||² for every row r [N, D] and column c [C, D], as [N, C].

    ||r||² - 2 r·c + ||c||² loses digits when the vectors are long and close together, as
    features after a ReLU are. Distances do not change when both sides are moved by the same
    vector, so both are first moved to the centre of the columns.
    """
    centre = columns.detach().mean(dim=0, keepdim=True)
    rows, columns = rows - centre, columns - centre
    squares = rows.square().sum(1, keepdim=True) + columns.square().sum(1)
    return torch.addmm(squares, rows, columns.T, alpha=-2).clamp_min(0)


def root(squares: Tensor) -> Tensor:
    """Square root with gradient zero, not infinite, where the distance vanishes."""
    return squares.clamp_min(SMALLEST_SQUARE).sqrt()


def scaled_distances(
    squares: Tensor, variance: Tensor, form: DistanceForm, dimension: int = 1
) -> Tensor:
    """Measure distances in units of the features' variance, in one of the forms of B-DOC.

    `variance` is that of one feature element, averaged over the `dimension` elements.
    """
    variance = variance.clamp_min(SMALLEST_SQUARE)
    if form == "norm":
        return root(squares) / variance.sqrt()
    if form == "squared":
        return squares / variance
    return squares / (variance * dimension)


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
    """Mask of the samples without NaN or infinity, [N]."""
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


SHORTLIST_FROM = 300  # classes
SCREEN_DIMENSIONS = 80
CLOSE_TOGETHER = 25  # squared distance of the means from the origin over that from each other

with warnings.catch_warnings():
    # sampled_addmm, the one operation needed, works; PyTorch calls all of CSR "beta", once.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.zeros(1, dtype=torch.int64), [], [], size=(0, 1))


class MeanSearch:
    """Squared distances from features to a fixed set of means [C, D].

    ||f||² - 2 f·mean + ||mean||² loses digits where all means lie close together far from the
    origin. Then, and only then since it copies the features, everything is moved to the centre
    of the means, which changes no distance.
    """

    def __init__(self, means: Tensor) -> None:
        self._source, self._version = means, means._version
        # An empty set has no centre; its distances are [N, 0] anyway.
        centre = means.mean(dim=0) if len(means) else means.new_zeros(means.shape[1])
        spread = (means - centre).square().sum(dim=1).mean()
        self._shift = centre if centre.square().sum() > CLOSE_TOGETHER * spread else None
        self._means = means if self._shift is None else means - centre
        self._squares = self._means.square().sum(dim=1)
        self._screen: tuple[Tensor, Tensor, Tensor] | None = None

    def serves(self, means: Tensor) -> bool:
        """Whether this was made from these means and they did not change since."""
        return means is self._source and means._version == self._version

    def squares(self, features: Tensor) -> Tensor:
        """Return ||f - mean||² to every class, as [N, C]."""
        features, own = self._shifted(features)
        return torch.addmm(own + self._squares, features, self._means.T, alpha=-2).clamp_min_(0)

    def candidates(self, features: Tensor, shortlist: int) -> tuple[Tensor, Tensor]:
        """Return squared distances and the classes they belong to.

        [N, C] and [C] where every class was looked at, else [N, shortlist] both.
        """
        few = len(self._means) < max(SHORTLIST_FROM, shortlist)
        if few or shortlist == 0 or features.device.type != "cpu":
            everything = torch.arange(len(self._means), device=features.device)
            return self.squares(features), everything
        features, own = self._shifted(features)
        offset, basis, projected = self._screening()
        estimate = torch.addmm(offset, features @ basis, projected, alpha=-2)
        classes = estimate.topk(shortlist, dim=1, largest=False, sorted=False).indices
        products = _selected_products(features, self._means, classes)
        return (own + self._squares[classes] - 2 * products).clamp_min_(0), classes

    def _shifted(self, features: Tensor) -> tuple[Tensor, Tensor]:
        if self._shift is not None:
            features = features - self._shift
        return features, torch.linalg.vector_norm(features, dim=1, keepdim=True).square()

    def _screening(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return offset [C], basis [D, R], projected means [R, C] of the estimate.

        offset - 2 (f basis) projected is, up to a constant per sample, the distance but for
        what f and a mean have in common outside of the basis, as seen from the centre of the
        means: little of a mean lies there, and hardly ever in the direction of f.
        """
        if self._screen is None:
            means = self._means.double()
            centre = means.mean(dim=0)
            means = means - centre
            basis = torch.linalg.eigh(means.T @ means).eigenvectors[:, -SCREEN_DIMENSIONS:]
            projected = means @ basis
            offset = means.square().sum(dim=1) + 2 * projected @ (centre @ basis)
            parts = offset, basis, projected.T
            self._screen = tuple(part.to(self._means.dtype).contiguous() for part in parts)
        return self._screen


def _selected_products(features: Tensor, means: Tensor, classes: Tensor) -> Tensor:
    """Return f_i · mean_c for the classes [N, K] picked per sample, copying no mean."""
    samples, picked = classes.shape
    starts = torch.arange(0, samples * picked + 1, picked)
    wanted = torch.sparse_csr_tensor(
        starts,
        classes.flatten(),
        torch.zeros(classes.numel(), dtype=features.dtype),
        size=(samples, len(means)),
        check_invariants=False,  # columns are unsorted, which this operation does not mind
    )
    return torch.sparse.sampled_addmm(wanted, features, means.T).values().view(samples, picked)
