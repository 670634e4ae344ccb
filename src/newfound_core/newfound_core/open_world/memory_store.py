# SPDX-License-Identifier: Apache-2.0
"""The memory on disk: image files named by their content, and an index.

    memory/index.json                  classes, and for each sample its file, source and use
    memory/images/<sha256>.png|.jpg    one file per different image

Every file is written atomically, the index last: whenever the power goes, the folder
 holds the old memory or the new one. Images that no index names are left-overs of such
an interruption; loading ignores them, saving removes them.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from newfound_core.errors import CheckpointError, DataError, NewfoundError
from newfound_core.open_world.memory import Memory, MemoryConfig, Sample
from newfound_core.storage import read_format, write_bytes, write_json

FORMAT = 1
_FILE_NAME = re.compile(r"[0-9a-f]{64}\.(png|jpg)")
_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg"}


def save_memory(memory: Memory, folder: Path) -> None:
    """Write the memory into a folder, replacing the one that is there."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    classes = {
        label: [_save_sample(sample, images) for sample in memory.samples(label)]
        for label in memory.labels
    }
    index = {
        "format": FORMAT,
        "size": memory.config.size,
        "held_out_share": memory.config.held_out_share,
        "classes": classes,
    }
    write_json(folder / "index.json", index)
    named = {entry["file"] for entries in classes.values() for entry in entries}
    for path in images.iterdir():
        if path.name not in named:
            path.unlink()


def load_memory(folder: Path) -> Memory:
    """Read a memory; whatever is damaged or does not belong is a CheckpointError."""
    path = folder / "index.json"
    index = _read_index(path)
    try:
        config = MemoryConfig(index["size"], index["held_out_share"])
        samples = {
            label: [_load_sample(entry, label, folder / "images") for entry in entries]
            for label, entries in index["classes"].items()
        }
        return Memory(config, samples)
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is not an index of a memory: {error!r}") from error
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error}") from error
    except NewfoundError as error:
        raise CheckpointError(f"{path}: {error}") from error


def encoded(sample: Sample) -> tuple[bytes, str]:
    """Return a sample's image as file content and its extension; arrays become PNG."""
    if isinstance(sample.image, np.ndarray):
        image = sample.image
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            raise DataError(
                f"an image of class {sample.label!r} is {image.dtype} {image.shape}, "
                "expected uint8 [H, W, 3]"
            )
        bgr, fast = cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 1]
        return cv2.imencode(".png", bgr, fast)[1].tobytes(), "png"
    for signature, extension in _SIGNATURES.items():
        if sample.image.startswith(signature):
            return sample.image, extension
    raise DataError(f"an image of class {sample.label!r} is neither a PNG nor a JPEG")


def sample_id(sample: Sample) -> str:
    """The name of a sample's image: it follows from its content."""
    content, extension = encoded(sample)
    return f"{hashlib.sha256(content).hexdigest()}.{extension}"


def _save_sample(sample: Sample, images: Path) -> dict[str, Any]:
    content, name = encoded(sample)[0], sample_id(sample)
    if not (images / name).is_file():
        write_bytes(images / name, content)
    return {"file": name, "held_out": sample.held_out, "source": sample.source}


def _load_sample(entry: dict[str, Any], label: str, images: Path) -> Sample:
    if set(entry) != {"file", "held_out", "source"}:
        raise CheckpointError(f"the index of {images.parent} has a strange entry: {entry}")
    name, held_out, source = entry["file"], entry["held_out"], entry["source"]
    if not isinstance(name, str) or not _FILE_NAME.fullmatch(name):
        raise CheckpointError(
            f"the index of {images.parent} names {name!r}, which is no image of a memory"
        )
    if not isinstance(held_out, bool) or not isinstance(source, str):
        raise CheckpointError(f"the index of {images.parent} has a strange entry: {entry}")
    path = images / name
    if path.is_symlink() or not path.is_file():
        raise CheckpointError(f"{path} is named in the index but is not there as a file")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != path.stem:
        raise CheckpointError(f"{path} is damaged: its content is not what its name says")
    return Sample(content, label, source, held_out)


def _read_index(path: Path) -> dict[str, Any]:
    try:
        return read_format(path, FORMAT)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing: the folder holds no memory") from error
    except DataError as error:
        raise CheckpointError(str(error)) from error
