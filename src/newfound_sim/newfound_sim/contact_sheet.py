# SPDX-License-Identifier: Apache-2.0
"""Contact sheets: many small pictures with captions in one file."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from newfound_sim.production import write_jpeg

CAPTION = 16  # pixels
FEW, LARGE, SMALL = 10, 128, 64  # up to a few columns, tiles are large


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


def sheet_of_folder(folder: Path) -> Path:
    """Write `contact_sheet.jpg`: a row for each domain, with the first picture of each class.

    A detection set has no classes but `images`: of these a few are shown.
    """
    pictures, captions = [], []
    domains = [d for d in sorted(folder.iterdir()) if d.is_dir()]
    rows = [_row(domain) for domain in domains]
    columns = max((len(row) for row in rows), default=0)
    size = LARGE if columns <= FEW else SMALL
    for row in rows:
        shown = [_read(path, size) for _, path in row]
        pictures += shown + [np.full_like(shown[0], 255)] * (columns - len(row)) if row else []
        captions += [caption for caption, _ in row] + [""] * (columns - len(row)) if row else []
    path = folder / "contact_sheet.jpg"
    if pictures:
        write_jpeg(path, contact_sheet(pictures, captions, columns), 85)
    return path


def _row(domain: Path) -> list[tuple[str, Path]]:
    """Captions and files: one of each class, or the first pictures of a detection set."""
    scenes = sorted((domain / "images").glob("*.jpg"))[:4]
    if scenes:
        return [(domain.name, path) for path in scenes]
    kinds = [kind for kind in sorted(domain.iterdir()) if kind.is_dir()]
    return [(kind.name, min(kind.glob("*.jpg"))) for kind in kinds if any(kind.glob("*.jpg"))]


def _read(path: Path, height: int) -> np.ndarray:
    picture = cv2.imread(str(path))[..., ::-1]
    width = round(picture.shape[1] * height / picture.shape[0])
    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
