# SPDX-License-Identifier: Apache-2.0
"""Contact sheets: many small pictures with captions in one file."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from newfound_sim.production import write_jpeg

CAPTION = 16  # pixels


def contact_sheet(
    pictures: Sequence[np.ndarray], captions: Sequence[str], columns: int
) -> np.ndarray:
    """Lay RGB pictures of one size out in rows, each over its caption."""
    tiles = [_tile(p, c) for p, c in zip(pictures, captions, strict=True)]
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % columns)
    rows = [np.hstack(tiles[i : i + columns]) for i in range(0, len(tiles), columns)]
    return np.vstack(rows)


def _tile(picture: np.ndarray, caption: str) -> np.ndarray:
    strip = np.full((CAPTION, picture.shape[1], 3), 255, np.uint8)
    scale = min(0.42, 0.055 * picture.shape[1] / max(1, len(caption)))
    cv2.putText(
        strip,
        caption,
        (3, CAPTION - 5),
        cv2.FONT_HERSHEY_SIMPLEX,
        scale,
        (30, 30, 30),
        1,
        cv2.LINE_AA,
    )
    framed = np.vstack([picture, strip])
    return cv2.copyMakeBorder(framed, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=(255, 255, 255))


def sheet_of_folder(folder: Path, columns: int = 8, size: int = 128) -> Path:
    """Write `contact_sheet.jpg`: the first picture of each `<domain>/<class>`, domains as rows."""
    first = [min(c.glob("*.jpg")) for c in sorted(folder.glob("*/*/")) if any(c.glob("*.jpg"))]
    pictures = [_read(path, size) for path in first]
    captions = [f"{p.parent.name}" for p in first]
    path = folder / "contact_sheet.jpg"
    if pictures:
        write_jpeg(path, contact_sheet(pictures, captions, columns), 85)
    return path


def _read(path: Path, height: int) -> np.ndarray:
    picture = cv2.imread(str(path))[..., ::-1]
    width = round(picture.shape[1] * height / picture.shape[0])
    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
