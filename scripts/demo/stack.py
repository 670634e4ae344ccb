# SPDX-License-Identifier: Apache-2.0
"""The whole suite in a process, on fresh folders; everything ends with it."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PARAMETERS = ROOT / "config/demo.yaml"
_PATIENCE = 30.0  # s for an orderly end


class StackEndedError(Exception):
    """The container has ended by itself."""


class Stack:
    """The running container."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        own = folder / "folders.yaml"
        own.write_text(yaml.safe_dump(_folders(folder)))
        self.log = (ROOT / "demo_report" / "nodes.log").open("w")
        arguments = ["--ros-args", "--params-file", str(PARAMETERS), "--params-file", str(own)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "newfound_runtime.container", *arguments],
            cwd=ROOT,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def check(self) -> None:
        """Raise if it does not run any more."""
        if self._process.poll() is not None:
            raise StackEndedError(f"the nodes have ended; see {self.log.name}")

    def end(self) -> None:
        """As with Ctrl-C; killed if that does not help."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            _end_learners(self._folder)
        self.log.close()


@contextmanager
def running() -> Iterator[Stack]:
    """The stack on folders that are gone afterwards."""
    (ROOT / "demo_report").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="newfound-demo-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name))
        try:
            yield stack
        finally:
            stack.end()


def _end_learners(folder: Path) -> None:
    """A container that is killed leaves its learning process at work, which names its job."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(folder / "knowledge" / "jobs") in entry.read_bytes():
                os.kill(int(entry.parent.name), signal.SIGKILL)


def _folders(folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Where the nodes keep what they keep, so that each demo begins with what is shipped."""
    values = {
        "/open_world_detector": {"knowledge_base": "knowledge"},
        "/table_detector": {"knowledge_base": "table_knowledge"},
        "/curator": {"state_folder": "curator", "image_folder": "images"},
        "/web_query": {"image_folder": "images"},
    }
    return {
        node: {"ros__parameters": {key: str(folder / name) for key, name in names.items()}}
        for node, names in values.items()
    }
