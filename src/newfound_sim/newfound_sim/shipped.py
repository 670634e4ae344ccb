# SPDX-License-Identifier: Apache-2.0
"""The clips that come with this package."""

from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

from newfound_sim.sources import SourceError


def find_source(name: str) -> Path:
    """The path that is meant: a path as it is, or the name of a clip that we ship."""
    if not name:
        raise SourceError("no source is given: name a clip, scenario file, image folder or video")
    path = Path(name).expanduser()
    if path.exists() or "/" in name:
        return path
    try:
        clips = Path(get_package_share_directory("newfound_sim")) / "clips"
    except PackageNotFoundError:
        raise SourceError(f"{name} does not exist, and newfound_sim is not installed") from None
    if not (clips / name).is_dir():
        known = ", ".join(sorted(p.name for p in clips.glob("*"))) or "none"
        raise SourceError(f"{name} is no file or folder here, nor a shipped clip ({known})")
    return clips / name
