# SPDX-License-Identifier: Apache-2.0
"""Figures as files, drawn without a screen."""

import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.figure import Figure

from newfound_core.storage import write_bytes

__all__ = ["pyplot", "save_figure"]
DPI = 100


def save_figure(figure: Figure, path: Path) -> None:
    """Write it as PNG, whole or not at all, and let go of it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=DPI, format="png")
    pyplot.close(figure)
    write_bytes(path, buffer.getvalue())
