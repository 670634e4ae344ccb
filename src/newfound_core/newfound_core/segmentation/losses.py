# SPDX-License-Identifier: Apache-2.0
"""The losses of MiB, in which the background of a step may hide other classes.

F. Cermelli et al., CVPR 2020, arXiv:2002.00718, equations 3 to 8. Channel 0 is the background b,
then come classes in the order of learning; the first `old` channels are those of earlier steps.
With q = softmax(z) at a pixel:

    cross entropy:  q~(b) = sum of q(k) over old k, b included;  q~(c) = q(c) for new c
                    loss = - mean over labelled pixels of log q~(label)
    distillation:   q^(b) = q(b) + sum of q(k) over new k;       q^(c) = q(c) for old c
                    loss = - mean over pixels of sum over old c of q_old(c) log q^(c)

Both are pure functions of logits [N, classes, H, W] and labels [N, H, W] (255: not known).
"""

import torch
from torch import Tensor
from torch.nn import functional

from newfound_core.errors import DataError
from newfound_core.segmentation import UNLABELLED


def plain_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy over the labelled pixels; zero if there are none."""
    return unbiased_cross_entropy(logits, labels, 1)


def unbiased_cross_entropy(
    logits: Tensor, labels: Tensor, old: int, weights: Tensor | None = None
) -> Tensor:
    """Cross entropy in which background means background or any old class.

    An old label counts as background: a step's own labels know no old class. `weights` [classes]
    say how much a pixel of each label counts; they are divided by the number of labelled pixels,
    not by their own sum, so that a batch without a rare class does not count more.
    """
    _check(logits, labels, old)
    labelled = labels != UNLABELLED
    total = logits.logsumexp(1)
    behind = logits[:, :old].logsumexp(1) - total  # log q~(b)
    chosen = labels.long().clamp(max=logits.shape[1] - 1)
    own = logits.gather(1, chosen[:, None])[:, 0] - total
    log = torch.where(chosen < old, behind, own)
    if weights is not None:
        log = log * weights[chosen]
    return -(log * labelled).sum() / labelled.sum().clamp(min=1)


def plain_distillation(logits: Tensor, before: Tensor, counted: Tensor | None = None) -> Tensor:
    """Distillation of LwF: probabilities among the old classes alone."""
    log = logits[:, : before.shape[1]].log_softmax(1)
    return _mean_cross_entropy(log, before, counted)


def unbiased_distillation(logits: Tensor, before: Tensor, counted: Tensor | None = None) -> Tensor:
    """Distillation in which the old network's background may be any of the new classes.

    `before` are the old network's logits; `counted` [N, H, W] names the pixels that count.
    """
    old = before.shape[1]
    total = logits.logsumexp(1, keepdim=True)
    background = torch.cat([logits[:, :1], logits[:, old:]], 1).logsumexp(1, keepdim=True)
    log = torch.cat([background, logits[:, 1:old]], 1) - total
    return _mean_cross_entropy(log, before, counted)


def _mean_cross_entropy(log: Tensor, before: Tensor, counted: Tensor | None) -> Tensor:
    loss = -(before.softmax(1) * log).sum(1)
    if counted is None:
        return loss.mean()
    return (loss * counted).sum() / counted.sum().clamp(min=1)


def _check(logits: Tensor, labels: Tensor, old: int) -> None:
    if logits.shape[2:] != labels.shape[1:] or len(logits) != len(labels):
        raise DataError(
            f"logits {list(logits.shape)} and labels {list(labels.shape)} are not of the same "
            "images: enlarge the logits to the size of the labels"
        )
    classes = logits.shape[1]
    if not 1 <= old <= classes:
        raise DataError(f"{old} of {classes} classes cannot be old ones")
    outside = (labels >= classes) & (labels != UNLABELLED)
    if bool(outside.any()):
        found = int(labels[outside][0])
        raise DataError(
            f"a pixel is labelled {found}, but there are {classes} classes, from 0 on, and "
            f"{UNLABELLED} for unlabelled pixels"
        )


def enlarged(logits: Tensor, size: tuple[int, int]) -> Tensor:
    """Logits at the size of the labels, by bilinear interpolation."""
    return functional.interpolate(logits, size, mode="bilinear", align_corners=False)
