# SPDX-License-Identifier: Apache-2.0
"""From distances and thresholds to a decision: one of the known classes, or unknown."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

UNKNOWN = -1

# "all_beyond": unknown if it lies beyond the threshold of every class (as printed in the thesis);
# "nearest_beyond": unknown if it lies beyond the threshold of its nearest class.
RejectWhen = Literal["all_beyond", "nearest_beyond"]
# "all": the nearest class, accepted or not (as printed); "accepted": the nearest of the classes
# whose threshold holds. The two differ under "all_beyond" only.
ChooseFrom = Literal["all", "accepted"]


@dataclass(frozen=True)
class Decision:
    """What a head says of each of N samples."""

    label: Tensor  # [N] int64, class index or UNKNOWN
    nearest: Tensor  # [N] int64, nearest class whatever the thresholds; UNKNOWN if there is none
    score: Tensor  # [N], how well it fits its class; higher is more known
    distance: Tensor  # [N], to the class decided for, or to the nearest if unknown
    rejection_threshold: Tensor  # [N], of the same class

    def __len__(self) -> int:
        return len(self.label)

    @property
    def known(self) -> Tensor:
        """Which samples were given a class, as [N] booleans."""
        return self.label != UNKNOWN


def choose(
    distances: Tensor, thresholds: Tensor, reject_when: RejectWhen, choose_from: ChooseFrom
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the column decided for, the nearest column and whether the sample is known.

    `distances` is [N, C]; `thresholds` has the same shape or is [C]. A distance that is NaN is
    beyond every threshold. A sample exactly on a threshold is known.
    """
    distances = distances.nan_to_num(nan=torch.inf, posinf=torch.inf)
    nearest = distances.min(dim=1).indices
    accepted = (distances <= thresholds) & distances.isfinite()
    if reject_when == "nearest_beyond":
        return nearest, nearest, accepted.gather(1, nearest[:, None])[:, 0]
    known = accepted.any(dim=1)
    if choose_from == "all":
        return nearest, nearest, known
    inside = distances.masked_fill(~accepted, torch.inf).min(dim=1).indices
    return torch.where(known, inside, nearest), nearest, known
