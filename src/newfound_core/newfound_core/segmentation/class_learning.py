# SPDX-License-Identifier: Apache-2.0
"""Learn one class from a few images with masks, and check what became of the others.

Old data are not needed. A few reference frames help where there are some: on half of them the old
network's answers are kept, on the other half its classes are checked; and on the new images, where
the old network's own answers are the standard.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from newfound_core.errors import ConfigError, DataError
from newfound_core.knowledge.labels import find_label, label_problem, normalise_label
from newfound_core.learning.job import ClassAccuracy
from newfound_core.metadata import Provenance
from newfound_core.models import LoadedModel, save_model, write_model_card
from newfound_core.preprocessing import Preprocessing
from newfound_core.resume import STATE_NAME
from newfound_core.segmentation import UNLABELLED
from newfound_core.segmentation.label_image import check_labels
from newfound_core.segmentation.network import SegmentationNetwork
from newfound_core.segmentation.samples import (
    LabelledImage,
    compute_samples,
    reduced,
)
from newfound_core.segmentation.segmenter import decide
from newfound_core.segmentation.training import TrainingConfig, learn_step

FEWEST_IMAGES = 2  # one to learn from, one to hold out
_OLD_ENOUGH = 0.01  # share of a picture that the old network must call a class to judge it there

OnProgress = Callable[[str, int, int], None]  # phase, done, total; may raise to stop


@dataclass(frozen=True)
class LearningConfig:
    """How one class is learned; the defaults suit twenty images.

    From so few images the head alone learns: with the backbone's last stage, classes that the
    images do not show are lost (docs/segmentation.md, "What was tried").
    """

    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(iterations=200, statistics="fixed", frozen=8)
    )
    variants: int = 12  # random variants of every image
    held_out_share: float = 0.2  # of the images, to check the new class on
    distil_reference: bool = True  # keep the old network's answers on half of the reference frames

    def __post_init__(self) -> None:
        if self.variants < 0 or not 0 < self.held_out_share < 1:
            raise ConfigError(
                "variants must not be negative, and held_out_share between 0 and 1, got "
                f"{self.variants} and {self.held_out_share}"
            )


@dataclass(frozen=True)
class LearnedClass:
    """A network that knows one class more, and how well all are recognised."""

    network: SegmentationNetwork
    labels: tuple[str, ...]
    # By label. Known classes: share of their pixels that is (still) found, in `samples` pictures;
    # the new one: intersection over union on the images held out.
    accuracy: Mapping[str, ClassAccuracy]
    images_used: int
    held_out: tuple[int, ...] = ()  # numbers of the images that were not learned from


def learn_class(
    loaded: LoadedModel,
    label: str,
    images: Sequence[np.ndarray],
    masks: Sequence[np.ndarray],
    config: LearningConfig | None = None,
    *,
    reference: Sequence[LabelledImage] = (),
    state: Path | None = None,
    on_progress: OnProgress = lambda phase, done, total: None,
) -> LearnedClass:
    """Learn `label` from images [H, W, 3] and masks [H, W]: 1 the class, 0 not, 255 not known.

    The loaded model stays as it is. `reference` frames are labelled by positions in its labels.
    On half of them the old network's answers are distilled, as on the images; the labels are used
    for the other half alone, which is checked on.
    Killed and called again with the same folder `state`, it ends with the same network.
    """
    config = config or LearningConfig()
    network, preprocessing = loaded.model, loaded.metadata.preprocessing
    assert isinstance(network, SegmentationNetwork)
    labels, label = check_labels(loaded.labels), normalise_label(label)
    _check_label(label, labels)
    pictures = _pictures(images, masks, preprocessing.size)
    for frame in reference:
        frame.check(len(labels))
    frames = [reduced(frame, preprocessing.size) for frame in reference]
    checked, kept = split_reference(frames) if config.distil_reference else (frames, [])
    training, held_out = _split(pictures, config.held_out_share, config.training.seed)
    learned_from = [*(pictures[i] for i in training), *map(_unlabelled, kept)]
    samples = compute_samples(
        network,
        learned_from,
        preprocessing,
        frozen=config.training.frozen,
        variants=config.variants,
        seed=config.training.seed,
        on_done=lambda done: on_progress("features", done, len(learned_from)),
    )
    learned = learn_step(
        network,
        samples,
        _table(len(labels)),
        1,
        config.training,
        state=None if state is None else state / STATE_NAME,
        on_step=lambda done, total: on_progress("training", done, total),
    )
    on_progress("checking", 0, 1)
    accuracy = _accuracies(
        (network, learned), (*labels, label), [pictures[i] for i in held_out], preprocessing,
        checked,
    )  # fmt: skip
    return LearnedClass(learned, (*labels, label), accuracy, len(pictures), tuple(held_out))


def save_learned(directory: Path, learned: LearnedClass, loaded: LoadedModel, label: str) -> Path:
    """Write what was learned as a checkpoint, with thresholds and preprocessing as they were."""
    metrics = {f"accuracy of {k}": a.after for k, a in learned.accuracy.items()}
    checkpoint = save_model(
        directory,
        learned.network,
        learned.labels,
        loaded.metadata.preprocessing,
        thresholds=loaded.metadata.thresholds,
        provenance=Provenance.now("learn_class", None, f"{learned.images_used} images", metrics),
    )
    write_model_card(
        checkpoint,
        f"{len(learned.labels) - 1} classes",
        f"Learned {label!r} from {learned.images_used} images with masks. Accuracies of the "
        "classes known before are shares of their pixels that are found; that of the new one is "
        "the intersection over union on images held out.",
        {},
    )
    return checkpoint


def _check_label(label: str, labels: Sequence[str]) -> None:
    if problem := label_problem(label):
        raise DataError(problem)
    if (known := find_label(label, labels)) is not None:
        raise DataError(
            f"{known!r} is known already: forget it first to learn it anew, or choose another name"
        )
    check_labels((*labels, label))


def _pictures(
    images: Sequence[np.ndarray], masks: Sequence[np.ndarray], size: int
) -> list[LabelledImage]:
    if len(images) != len(masks):
        raise DataError(f"{len(images)} images have {len(masks)} masks: give one for each")
    if len(images) < FEWEST_IMAGES:
        raise DataError(
            f"{len(images)} images are too few: at least {FEWEST_IMAGES} are needed, one to learn "
            "from and one to hold out"
        )
    found = []
    for number, (rgb, mask) in enumerate(zip(images, masks, strict=True)):
        picture = LabelledImage(rgb, mask, f"mask {number}")
        picture.check(2)
        found.append(reduced(picture, size))
    return found


def _split(
    pictures: Sequence[LabelledImage], share: float, seed: int
) -> tuple[list[int], list[int]]:
    """Numbers of the images to learn from and to hold out, the class among both."""
    positive = [i for i, p in enumerate(pictures) if (p.labels == 1).any()]
    if len(positive) < FEWEST_IMAGES:
        raise DataError(
            f"{len(positive)} of {len(pictures)} masks show the class: at least {FEWEST_IMAGES} "
            "are needed, one to learn from and one to hold out. The others have no pixel of value "
            "1 (255 is not known)"
        )
    order = np.random.default_rng([seed, 5]).permutation(positive).tolist()
    count = min(max(1, round(share * len(positive))), len(positive) - 1)
    held_out = sorted(order[:count])
    return [i for i in range(len(pictures)) if i not in held_out], held_out


def split_reference(
    frames: Sequence[LabelledImage],
) -> tuple[list[LabelledImage], list[LabelledImage]]:
    """Frames to check on, and frames whose answers are kept: half of them, every class checked."""
    checked: list[LabelledImage] = []
    kept: list[LabelledImage] = []
    seen: set[int] = {0, UNLABELLED}
    for frame in frames:
        shown = set(np.unique(frame.labels).tolist())
        part = checked if shown - seen or len(checked) <= len(kept) else kept
        part.append(frame)
        if part is checked:
            seen |= shown
    return checked, kept


def _unlabelled(frame: LabelledImage) -> LabelledImage:
    """A frame that distillation alone is computed on."""
    return LabelledImage(frame.rgb, np.full_like(frame.labels, UNLABELLED), frame.name)


def _table(old: int) -> np.ndarray:
    """From values of a job's masks to a network's classes."""
    table = np.full(256, UNLABELLED, np.uint8)
    table[0], table[1] = 0, old
    return table


def _accuracies(
    networks: tuple[SegmentationNetwork, SegmentationNetwork],
    labels: Sequence[str],
    held_out: Sequence[LabelledImage],
    preprocessing: Preprocessing,
    reference: Sequence[LabelledImage],
) -> dict[str, ClassAccuracy]:
    new = len(labels) - 1
    shares: dict[int, list[tuple[float, float]]] = {}
    both = union = 0
    for picture in held_out:
        before, after = (mask_of(network, picture.rgb, preprocessing) for network in networks)
        known = picture.labels != UNLABELLED
        is_new = picture.labels == 1
        both += int(((after == new) & is_new).sum())
        union += int((((after == new) | is_new) & known).sum())
        for index in range(1, new):
            # The old network is the standard where the label does not say otherwise.
            called = (before == index) & (picture.labels == 0)
            if called.mean() >= _OLD_ENOUGH:
                kept = float((after[called] == index).mean())
                shares.setdefault(index, []).append((1.0, kept))
    for frame in reference:
        before, after = (mask_of(network, frame.rgb, preprocessing) for network in networks)
        for index in range(1, new):
            true = frame.labels == index
            if true.mean() >= _OLD_ENOUGH:
                found = float((before[true] == index).mean()), float((after[true] == index).mean())
                shares.setdefault(index, []).append(found)
    accuracy = {
        labels[index]: ClassAccuracy(len(pairs), *(float(v) for v in np.mean(pairs, axis=0)))
        for index, pairs in sorted(shares.items())
    }
    return accuracy | {labels[new]: ClassAccuracy(len(held_out), None, both / max(1, union))}


@torch.no_grad()
def mask_of(
    network: SegmentationNetwork, rgb: np.ndarray, preprocessing: Preprocessing
) -> np.ndarray:
    """The mask of an image by a network, without rejection."""
    device = next(network.parameters()).device
    network.eval()
    pixels = network(preprocessing.batch([rgb]).to(device)).pixels[0]
    return decide(pixels.cpu(), (rgb.shape[1], rgb.shape[0])).mask
