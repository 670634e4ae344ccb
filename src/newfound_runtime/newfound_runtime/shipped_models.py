# SPDX-License-Identifier: Apache-2.0
"""Find the checkpoint that a parameter names."""

from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

from newfound_core.errors import CheckpointError
from newfound_core.model_download import fetched_model


def find_checkpoint(name: str) -> Path:
    """What is meant: a path as it is, a model that we ship, or a published one, if fetched."""
    if not name:
        raise CheckpointError("no checkpoint is given: set the parameter checkpoint to its folder")
    path = Path(name).expanduser()
    if "/" in name or path.exists():
        return path
    if (fetched := fetched_model(name)) is not None:
        return fetched
    try:
        models = Path(get_package_share_directory("newfound_bringup")) / "models"
    except PackageNotFoundError:
        raise CheckpointError(
            f"{name} does not exist, and newfound_bringup, which brings models, is not installed"
        ) from None
    if not (models / name).is_dir():
        known = ", ".join(sorted(p.name for p in models.glob("*") if p.is_dir())) or "none"
        raise CheckpointError(f"{name} is no folder here, nor a shipped model ({known})")
    # A workspace built with --symlink-install links every file; a memory takes no links.
    return (models / name / "checkpoint.json").resolve().parent
