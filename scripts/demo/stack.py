# SPDX-License-Identifier: Apache-2.0
"""The whole suite in a process, on fresh folders; everything ends with it."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from scripts.screenshot import chromium
from scripts.up import end, page_command

ROOT = Path(__file__).resolve().parents[2]
PARAMETERS = ROOT / "config/demo.yaml"
SCREENSHOT = ROOT / "demo_report" / "inbox.png"
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
        self._process = self._start(
            [sys.executable, "-m", "newfound_runtime.container", *arguments]
        )
        self.port = _free_port()
        self._page = self._start(page_command(self.port))
        self._screenshot: subprocess.Popen | None = None

    def _start(self, command: list[str]) -> subprocess.Popen:
        return subprocess.Popen(command, cwd=ROOT, stdout=self.log, stderr=subprocess.STDOUT)

    @property
    def address(self) -> str:
        """Where the operator's page is."""
        return f"http://localhost:{self.port}/"

    def take_screenshot(self) -> None:
        """Have a picture of the inbox taken, once, if there is a browser."""
        if self._screenshot is None and chromium():
            target = [f"{self.address}#/inbox", str(SCREENSHOT), "--wait", ".card .candidate"]
            self._screenshot = self._start([sys.executable, "-m", "scripts.screenshot", *target])

    def check(self) -> None:
        """Raise if it does not run any more."""
        if self._process.poll() is not None:
            raise StackEndedError(f"the nodes have ended; see {self.log.name}")

    def end(self) -> None:
        """As with Ctrl-C; killed if that does not help."""
        end([p for p in (self._screenshot, self._page) if p is not None])
        if self._process.poll() is None:
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
    SCREENSHOT.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="newfound-demo-", ignore_cleanup_errors=True) as name:
        stack = Stack(Path(name))
        try:
            yield stack
        finally:
            stack.end()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


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
