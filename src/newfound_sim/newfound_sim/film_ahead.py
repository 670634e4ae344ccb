# SPDX-License-Identifier: Apache-2.0
"""Films a scenario before it is played, in a process of its own, and keeps the clip."""

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

REPORT_EVERY = 5.0  # s
PATIENCE = 5.0  # s for the process to end when asked to


class FilmingError(SimulationError):
    """A scenario that could not be filmed."""


def default_cache() -> Path:
    """Where clips are kept unless somebody says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "newfound" / "clips"


def film_ahead(
    file: Path,
    cache: Path,
    workers: int,
    report: Callable[[str], None],
    go_on: Callable[[], bool] = lambda: True,
) -> Path:
    """The folder of the scenario's clip, filmed now if that was not done before.

    `report` gets a sentence now and then; when `go_on` says no, filming stops and can be
    continued later.
    """
    # Imported here: the renderer and its meshes are needed for scenarios only.
    from newfound_sim.clip import FILE
    from newfound_sim.film import FilmOptions, description
    from newfound_sim.scenario_file import load_scenario

    wanted = description(load_scenario(file), FilmOptions())
    key = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:12]
    clip = cache / f"{file.stem}-{key}"
    if not (clip / FILE).exists():
        report(f"filming {file} into {clip}, once")
        _run(file, clip, workers, report, go_on)
    return clip


def _run(
    file: Path, clip: Path, workers: int, report: Callable[[str], None], go_on: Callable[[], bool]
) -> None:
    from newfound_sim.film_folder import progress

    command = [sys.executable, "-m", "newfound_sim", "render", str(file)]
    command += ["--out", str(clip), "--workers", str(workers)]
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=told, stderr=told)
        waited = 0.0
        try:
            while process.poll() is None and go_on():
                try:
                    process.wait(0.2)
                except subprocess.TimeoutExpired:
                    waited += 0.2
                if waited > REPORT_EVERY:
                    waited = 0.0
                    report("filming: {} of {} files".format(*progress(clip)))
        finally:
            stopped = _end(process)
        if stopped or process.returncode != 0:
            told.seek(0)
            last = told.read().decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
            why = "was stopped" if stopped else f"failed with: {last[0]}"
            raise FilmingError(f"filming {file} {why}. What is done is kept in {clip}.")


def _end(process: subprocess.Popen) -> bool:
    """End the process if it still runs; whether it did."""
    if process.poll() is not None:
        return False
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return True
