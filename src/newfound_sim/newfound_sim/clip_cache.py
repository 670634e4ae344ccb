# SPDX-License-Identifier: Apache-2.0
"""Cache of rendered scenarios: render one in a subprocess if it is not there yet."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from newfound_sim.errors import SimulationError

REPORT_INTERVAL = 5.0  # s between two progress messages
STOP_TIMEOUT = 5.0  # s for the subprocess to end when asked to


class ClipRenderError(SimulationError):
    """A scenario could not be rendered."""


def default_cache_folder() -> Path:
    """The user's cache folder for clips (XDG)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "newfound" / "clips"


def cached_clip(
    file: Path,
    cache: Path,
    workers: int,
    report: Callable[[str], None],
    keep_going: Callable[[], bool] = lambda: True,
) -> Path:
    """Return the folder of the scenario's clip, rendering it now if it is not cached.

    `report` gets a progress message every few seconds. When `keep_going` returns False, rendering
    stops; a later call continues it.
    """
    # Imported here: the renderer and its meshes are needed for scenarios only.
    from newfound_sim.clip import FILE
    from newfound_sim.clip_rendering import ClipOptions, description
    from newfound_sim.scenario_file import load_scenario

    wanted = description(load_scenario(file), ClipOptions())
    key = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:12]
    clip = cache / f"{file.stem}-{key}"
    if not (clip / FILE).exists():
        report(f"rendering {file} into {clip}, once")
        _run(file, clip, workers, report, keep_going)
    return clip


def _run(
    file: Path,
    clip: Path,
    workers: int,
    report: Callable[[str], None],
    keep_going: Callable[[], bool],
) -> None:
    from newfound_sim.clip_rendering import progress

    command = [sys.executable, "-m", "newfound_sim", "render", str(file)]
    command += ["--out", str(clip), "--workers", str(workers)]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        waited = 0.0
        try:
            while process.poll() is None and keep_going():
                try:
                    process.wait(0.2)
                except subprocess.TimeoutExpired:
                    waited += 0.2
                if waited > REPORT_INTERVAL:
                    waited = 0.0
                    report("rendering: {} of {} files".format(*progress(clip)))
        finally:
            stopped = _stop(process)
        if stopped or process.returncode != 0:
            output.seek(0)
            last = output.read().decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
            why = "was stopped" if stopped else f"failed with: {last[0]}"
            raise ClipRenderError(f"rendering {file} {why}. What is done is kept in {clip}.")


def _stop(process: subprocess.Popen) -> bool:
    """Stop the process; return whether it was still running."""
    if process.poll() is not None:
        return False
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return True
