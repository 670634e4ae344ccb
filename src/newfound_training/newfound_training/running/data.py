# SPDX-License-Identifier: Apache-2.0
"""A resumed run works on the data that it was started with, or not at all.

Saved states, computed rows and measured streams know images by their position. After an image was
added or repaired they would belong to other images, and nothing else would notice.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from newfound_core.errors import ConfigError
from newfound_training.data import ImageSet
from newfound_training.running.files import read_json, write_json
from newfound_training.running.run import Run

DATA_NAME = "data.json"


def require_same_images(images: ImageSet, run: Run) -> None:
    """Remembers the images of a run; a ConfigError if it was started with others."""
    names = (f"{source.name} {source.fingerprint()}" for source in images.sources)
    require_same_data(images.root, [*images.class_names, *names], run)


def require_same_data(root: Path, fingerprints: Iterable[str], run: Run) -> None:
    """The same for anything that fingerprints tell apart."""
    if not run.team.leads:
        return
    path = run.out / DATA_NAME
    digest = hashlib.sha256("\n".join(fingerprints).encode()).hexdigest()
    known = read_json(path) if path.exists() else {}
    if known.setdefault(str(root), digest) != digest:
        raise ConfigError(
            f"{root} is not what it was when the run in {run.out} was started: files were added, "
            "changed or removed. Restore them, or choose another --out"
        )
    write_json(path, known)
