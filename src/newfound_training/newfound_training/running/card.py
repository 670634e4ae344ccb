# SPDX-License-Identifier: Apache-2.0
"""A model card: what a person who finds a checkpoint wants to know, as its README.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from newfound_core.checkpoint import load_checkpoint
from newfound_core.storage import write_bytes

CARD_NAME = "README.md"


def write_model_card(checkpoint: Path, title: str, about: str, facts: Mapping[str, Any]) -> None:
    """Writes the card into a checkpoint that is on disk; most of it is read from there."""
    metadata = load_checkpoint(checkpoint).metadata
    made = metadata.provenance
    size = metadata.preprocessing.size
    lines = [
        f"# {title}",
        "",
        about,
        "",
        f"- Method: `{metadata.method}` on `{metadata.backbone.name}`, images of {size} x {size}",
        f"- Classes ({len(metadata.labels)}): {', '.join(metadata.labels)}",
        f"- Data: {made.data}",
        f"- Made on {made.date} with seed {made.seed} by",
        "",
        f"      {made.command}",
        "",
        "| measured | value |",
        "|---|---|",
        *(f"| {name} | {_number(value)} |" for name, value in {**made.metrics, **facts}.items()),
        "",
        "Load it with `newfound_core.models.load_model(directory)`; the preprocessing is part of "
        "the checkpoint.",
        "",
    ]
    write_bytes(checkpoint / CARD_NAME, "\n".join(lines).encode())


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
