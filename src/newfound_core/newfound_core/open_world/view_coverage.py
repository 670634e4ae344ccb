# SPDX-License-Identifier: Apache-2.0
"""Are these views of a thing enough to learn it? What its other views say of each one, left out.

Views of a thing that stands still are one view, however many there are: left-out copies of a view
would always be recognised. So a view counts only if it differs from all that count before it.
"""

import copy

import torch
from torch import Tensor
from torch.nn import functional

from newfound_core.open_world.head import OpenWorldHead

SAME_VIEW = 0.97  # cosine from which on two views are one; set by judgement
MOST_LEFT_OUT = 24  # views that are left out in turn; each costs a small fit
_NEW = "\N{NO-BREAK SPACE}new"  # a label that none can have: it begins with a space


def distinct_views(embeddings: Tensor, same: float = SAME_VIEW) -> tuple[list[bool], list[float]]:
    """Which views [N, D] differ from all before them that do, and by how much: 1 - cosine."""
    rows = functional.normalize(embeddings.double(), dim=1)
    differs: list[bool] = []
    novelty: list[float] = []
    for number in range(len(rows)):
        earlier = [n for n in range(number) if differs[n]]
        cosine = float((rows[earlier] @ rows[number]).max()) if earlier else 0.0
        differs.append(not earlier or cosine < same)
        novelty.append(min(2.0, max(0.0, 1 - cosine)))
    return differs, novelty


@torch.no_grad()
def recognised_when_left_out(head: OpenWorldHead, views: Tensor) -> int:
    """How many of the views [N, D] of one thing are recognised by what the others teach.

    The thing is added to a copy of the head as learning would add it, without a view, and the
    copy judges that view. Of more than MOST_LEFT_OUT, the first ones are left out, and their
    share counts for all.
    """
    number = len(views)
    if number < 2:
        return 0
    tried = min(number, MOST_LEFT_OUT)
    right = sum(_recognised(head, views, left_out) for left_out in range(tried))
    return round(right / tried * number)


def _recognised(head: OpenWorldHead, views: Tensor, left_out: int) -> bool:
    learner = copy.deepcopy(head)
    before = len(learner.labels)
    learner.extend([_NEW])
    others = views[torch.arange(len(views)) != left_out]
    labels = torch.full((len(others),), before, device=views.device)
    if not before:
        learner.begin_step()
    learner.refit([(others, labels)], features_changed=False)
    if before:
        learner.fit_added_thresholds(others, labels, before)
    else:
        learner.fit_thresholds(others, labels)
    return int(learner.decide(views[left_out : left_out + 1]).label) == before
