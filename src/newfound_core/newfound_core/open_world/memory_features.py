# SPDX-License-Identifier: Apache-2.0
"""Features of remembered images, kept beside them.

    memory/features.safetensors    float16 [images, D]; metadata: the network, the images' names

A network that does not train gives the same image the same feature, so learning a class takes as
long as its own images take, however many are remembered. The file can be computed from the others
at any time: one that is missing, damaged or of another network is computed anew.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from newfound_core.open_world.memory import Memory
from newfound_core.open_world.memory_store import sample_id
from newfound_core.storage import write_bytes

FILE_NAME = "features.safetensors"
_log = logging.getLogger(__name__)


def save_features(folder: Path, network: str, features: Mapping[str, np.ndarray]) -> None:
    """Write features [D] by the names of images; `network` is the digest of what made them."""
    if not features:
        return
    stacked = np.stack([np.asarray(row, np.float16) for row in features.values()])
    metadata = {"network": network, "images": json.dumps(list(features))}
    write_bytes(folder / FILE_NAME, save({"features": stacked}, metadata))


def load_features(folder: Path, network: str) -> dict[str, np.ndarray]:
    """The features that this network made; empty if there are none that can be used."""
    made_by, features = _read(folder / FILE_NAME)
    return features if made_by == network else {}


def copy_features(folder: Path, target: Path, memory: Memory) -> None:
    """Take over the features of the images of a memory, and of no others."""
    network, features = _read(folder / FILE_NAME)
    names = {sample_id(s) for label in memory.labels for s in memory.samples(label)}
    save_features(target, network, {name: features[name] for name in names & features.keys()})


def _read(path: Path) -> tuple[str, dict[str, np.ndarray]]:
    """The digest of the network and its features; nothing if the file is missing or damaged."""
    if not path.is_file():
        return "", {}
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            names, rows = json.loads(metadata["images"]), file.get_tensor("features")
            network = metadata["network"]
        if len(names) != len(rows) or rows.ndim != 2 or not np.isfinite(rows).all():
            raise ValueError(f"{len(names)} names for features {rows.shape}")
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        _log.warning("%s is damaged and is computed anew: %s", path, error)
        return "", {}
    return network, dict(zip(names, rows, strict=True))
