# SPDX-License-Identifier: Apache-2.0
"""Cost of a class for `ridge_lda` with many classes: learning, forgetting, a frame, memory.

    python -m studies.many_classes

Features are drawn: clusters in as many dimensions as the default network has. Times are of one
thread and depend on the machine; how they grow does not.
"""

import argparse
import time
from collections.abc import Callable

import torch

from newfound_core.open_world.heads import build_head
from newfound_core.open_world.ridge_lda import RidgeLda

DIMENSION, VIEWS, OBJECTS = 1280, 20, 5


def features(classes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Views of each class, [classes * VIEWS, DIMENSION], and their labels."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, DIMENSION, generator=generator)
    labels = torch.arange(classes).repeat_interleave(VIEWS)
    noise = torch.randn(len(labels), DIMENSION, generator=generator)
    return 10 * torch.nn.functional.normalize(centres[labels] + noise, dim=1), labels


def taught(classes: int) -> RidgeLda:
    """A head that has learned so many classes, a hundred at a time."""
    head = build_head("ridge_lda", DIMENSION)
    assert isinstance(head, RidgeLda)
    for start in range(0, classes, 100):
        count = min(100, classes - start)
        head.extend([f"class {start + i}" for i in range(count)])
        views, labels = features(count, start)
        head.refit([(views, labels + start)], features_changed=False)
    head.fit_thresholds(*held_out(classes))
    return head


def held_out(classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three further views of each class, of 3,000 classes at most."""
    views, labels = [], []
    for start in range(0, min(classes, 3000), 100):
        some, own = features(min(100, classes - start), start)
        views.append(some[own.unique_consecutive(return_counts=True)[1].cumsum(0) - 1])
        labels.append(own.unique() + start)
    return torch.cat(views).repeat_interleave(3, 0), torch.cat(labels).repeat_interleave(3)


def seconds(work: Callable[[], object]) -> float:
    """How long something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def add(head: RidgeLda, views: torch.Tensor, labels: torch.Tensor) -> None:
    """Learn one more class, and be ready to answer."""
    number = len(head.labels)
    head.extend(["one more"])
    head.refit([(features(1, -1)[0], torch.full((VIEWS,), number))], features_changed=False)
    head.fit_added_thresholds(views, labels, number)
    head.decide(views[:1])


def row(classes: int) -> str:
    """One line of the table."""
    head = taught(classes)
    objects = features(1, 7)[0][:OBJECTS]
    head.decide(objects)
    known = held_out(classes)
    add_ms = 1e3 * seconds(lambda: add(head, *known))
    frame_ms = 1e3 * min(seconds(lambda: head.decide(objects)) for _ in range(10))
    forget_ms = 1e3 * seconds(lambda: (head.forget("one more"), head.decide(objects)))
    size = sum(t.numel() * t.element_size() for t in head.state_dict().values()) / 1e6
    return f"| {classes} | {add_ms:.0f} | {forget_ms:.0f} | {frame_ms:.1f} | {size:.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000, 10_000])
    numbers = parser.parse_args().classes
    torch.set_num_threads(1)
    print(f"| classes | add, ms | forget, ms | {OBJECTS} objects, ms | MB |")
    print("|---|---|---|---|---|")
    row(2)  # what is slow the first time
    for classes in numbers:
        print(row(classes), flush=True)


if __name__ == "__main__":
    main()
