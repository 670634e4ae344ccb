# SPDX-License-Identifier: Apache-2.0
"""A version of the segmenter's knowledge, and the ways to write one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from newfound_core.knowledge.contents import Write, copy_of
from newfound_core.metadata import Provenance
from newfound_core.models import LoadedModel, load_model, save_model
from newfound_core.segmentation.growth import without_class as smaller
from newfound_core.segmentation.label_image import check_labels
from newfound_core.segmentation.network import SegmentationNetwork
from newfound_core.segmentation.reference import (
    REFERENCE_NAME,
    counts,
    read_reference,
    without_class,
    write_reference,
)
from newfound_core.segmentation.taught import TAUGHT_NAME, copy_taught

METHOD = "segmentation"


@dataclass(frozen=True)
class SegmentKnowledge:
    """A segmentation network, and on how many reference frames each class can be checked."""

    loaded: LoadedModel
    reference: Mapping[str, int]  # by label

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes it knows, the background first."""
        return self.loaded.labels


def read_segments(folder: Path, device: str = "cpu") -> SegmentKnowledge:
    """Read a version, every tensor and every reference frame; raises a NewfoundError."""
    loaded = load_model(folder, METHOD, device)
    labels = check_labels(loaded.labels)
    return SegmentKnowledge(loaded, counts(read_reference(folder, len(labels)), labels))


def from_checkpoint(checkpoint: Path) -> Write:
    """Write a version that is a copy of a checkpoint, which is checked first."""
    check = lambda: read_segments(checkpoint).labels  # noqa: E731
    return copy_of(checkpoint, check, REFERENCE_NAME, TAUGHT_NAME)


def renaming(version: Path, label: str, new_label: str) -> Write:
    """Write a version that is another one in which a class has another name."""

    def write(folder: Path) -> Iterable[str]:
        loaded = load_model(version, METHOD)
        labels = tuple(new_label if other == label else other for other in loaded.labels)
        data = f"{label!r} as {new_label!r}"
        save_model(
            folder,
            loaded.model,
            labels,
            loaded.metadata.preprocessing,
            thresholds=loaded.metadata.thresholds,
            provenance=Provenance.now("rename", None, data, {}),
        )
        write_reference(folder, read_reference(version, len(labels)))
        copy_taught(version, folder)
        return labels

    return write


def forgetting(version: Path, label: str) -> Write:
    """Write a version that is another one without one of its classes."""

    def write(folder: Path) -> Iterable[str]:
        loaded = load_model(version, METHOD)
        network = loaded.model
        assert isinstance(network, SegmentationNetwork)
        index = loaded.labels.index(label)
        labels = tuple(other for other in loaded.labels if other != label)
        save_model(
            folder,
            smaller(network, index),
            labels,
            loaded.metadata.preprocessing,
            thresholds=loaded.metadata.thresholds,
            provenance=Provenance.now("forget", None, label, {}),
        )
        frames = read_reference(version, len(loaded.labels))
        write_reference(folder, without_class(frames, index))
        copy_taught(version, folder, forgotten=index)
        return labels

    return write
