# SPDX-License-Identifier: Apache-2.0
"""Whether what was learned may be used: what known classes lost, and what became of the new one.

An average over many classes hides one that is gone: a mug that is taught as "cup" takes over
"mug", and fifteen other classes are as they were. So each class is looked at as well.
"""

from collections.abc import Mapping

from newfound_core.learning.job import ClassAccuracy, JobOptions, JobState, Reason

FEWEST_SAMPLES = 3  # held out, of one class: fewer say nothing about it
_NAMED = 3  # classes in a message

Accuracies = Mapping[str, ClassAccuracy]
Verdict = tuple[JobState, Reason, str]  # the last is for people


def validate(accuracy: Accuracies, options: JobOptions) -> Verdict:
    """Whether a learned class may be used, and a message if not, or if that is doubtful."""
    loss = average_loss(accuracy)
    if loss > options.max_accuracy_loss and images_lost(accuracy) > FEWEST_SAMPLES - 0.5:
        message = (
            f"the known classes lost {100 * loss:.1f} points of accuracy on average, more than "
            f"the {100 * options.max_accuracy_loss:.1f} allowed; most of all {_worst(accuracy)}"
        )
        return JobState.REJECTED, "forgot_too_much", message
    if options.max_class_loss == 1:
        return JobState.DONE, "", ""
    gone = {k: a for k, a in accuracy.items() if _judged(a) and a.lost > options.max_class_loss}
    if gone:
        message = (
            f"known classes would hardly be recognised any more: {_worst(gone)}. Is it one of "
            f"them under another name? A class may lose {100 * options.max_class_loss:.0f} % of "
            "what is recognised of it (max_class_loss)"
        )
        return JobState.REJECTED, "forgot_too_much", message
    return _validate_the_new(accuracy, options.min_new_accuracy)


def average_loss(accuracy: Accuracies) -> float:
    """By how much the classes known before are recognised less, on average."""
    losses = [a.before - a.after for a in accuracy.values() if a.before is not None]
    return sum(losses) / len(losses) if losses else 0.0


def images_lost(accuracy: Accuracies) -> float:
    """How many held-out images of classes known before are recognised less.

    While few classes are known, one image of nine is eleven points, and says nothing.
    """
    known = [a for a in accuracy.values() if a.before is not None]
    return sum(a.samples * ((a.before or 0.0) - a.after) for a in known)


def _validate_the_new(accuracy: Accuracies, least: float) -> Verdict:
    for label, found in accuracy.items():
        if found.before is None and found.samples and found.after <= least:
            message = f"none of {found.samples} images of {label!r} that were held out"
            if least:
                message = (
                    f"{100 * found.after:.0f} %, not {100 * least:.0f} %, of {label!r} in "
                    f"{found.samples} images that were held out"
                )
            message += (
                " is recognised: views that differ from each other help, unless it is known by "
                "another name"
            )
            if found.samples >= FEWEST_SAMPLES or least:  # one image has thousands of pixels
                return JobState.REJECTED, "not_recognised", message
            return JobState.DONE, "", message
    return JobState.DONE, "", ""


def _judged(found: ClassAccuracy) -> bool:
    """Whether enough of a known class was recognised to say that it is gone."""
    return found.samples * (found.before or 0.0) > FEWEST_SAMPLES - 0.5


def _worst(accuracy: Accuracies) -> str:
    """The classes that lost most, for people."""
    known = [(a.lost, label, a) for label, a in accuracy.items() if a.before is not None]
    ranked = sorted(known, key=lambda entry: -entry[0])[:_NAMED]
    return ", ".join(
        f"{label!r} ({100 * (a.before or 0.0):.0f} to {100 * a.after:.0f} %)"
        for lost, label, a in ranked
        if lost > 0
    )
