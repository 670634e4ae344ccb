# SPDX-License-Identifier: Apache-2.0
"""Tasks that a node serves one at a time: `~/load_task`, and which of them are kept ready.

A task is a checkpoint, usually a delta, in a folder below `task_root`. It is made ready in a
thread of its own and takes over between two frames. What ONDA adapted belongs to the task: a
task that is held goes on where it was left, one that is loaded begins as the node would with it.
"""

import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rclpy.callback_groups import CallbackGroup

from newfound_core.checkpoint import JSON_NAME
from newfound_core.errors import NewfoundError
from newfound_core.inference import Inference
from newfound_core.models import LoadedModel
from newfound_core.task_delta.checkpoint import is_task_name
from newfound_msgs.srv import LoadTask
from newfound_nodes.adaptation.state import StateError
from newfound_nodes.adaptation.updates import Adaptation, Persistence, use_one_thread
from newfound_runtime.managed_node import run_in_thread
from newfound_runtime.parameters import Parameter
from newfound_runtime.services import RequestError, answering

SWITCH_INTERVAL = 2e-4  # s after which frames get the interpreter back while a task is built

PARAMETERS = (
    Parameter("task_root", "", "Folder of tasks for ~/load_task, one folder each; empty: none."),
    Parameter(
        "held_tasks",
        3,
        "Tasks kept ready, the one that serves included; the one least recently served is let go.",
        minimum=1,
        maximum=100,
    ),
)


@dataclass(frozen=True)
class ServedTask:
    """A model that is ready, with the adaptation that belongs to it."""

    name: str  # empty: the parameter checkpoint
    loaded: LoadedModel
    inference: Inference
    adaptation: Adaptation | None = None
    persistence: Persistence | None = None

    def save_soon(self) -> None:
        """Save what was adapted, in the background, if that is wanted."""
        if self.persistence is not None:
            self.persistence.save_soon()

    def close(self, timeout: float) -> bool:
        """End its thread after what it has to save; False if it does not in time."""
        self.save_soon()
        return self.adaptation is None or self.adaptation.close(timeout)


class TaskNode(Protocol):
    """What a node must offer to be switched."""

    def param(self, name: str) -> Any:
        """The value of a parameter."""

    def can_switch(self) -> str:
        """Why no task can be loaded now; empty if one can."""

    def build_task(self, name: str, folder: Path | None) -> ServedTask:
        """Make a task ready; slow. No folder: the parameter checkpoint."""

    def serve_task(self, task: ServedTask) -> None:
        """Let it take over, between two frames."""


class Tasks:
    """The tasks of one node that are ready, in the order in which they last served."""

    def __init__(self, node: Any, close_timeout: float) -> None:
        self._node: TaskNode = node
        self._ros: Any = node  # the same, for services
        self._logger, self._timeout = node.get_logger(), close_timeout
        self._held: OrderedDict[str, ServedTask] = OrderedDict()
        self._lock = threading.Lock()  # held while a task is made ready

    def offer(self, group: CallbackGroup) -> None:
        """Let clients choose: `~/load_task`."""
        callback = answering(self._ros, self._load)
        self._ros.create_service(LoadTask, "~/load_task", callback, callback_group=group)

    def begin(self, task: ServedTask) -> None:
        """Hold the task that the node was configured with."""
        self._held = OrderedDict({task.name: task})

    @property
    def serving(self) -> str:
        """Name of the task that serves; empty: the parameter checkpoint."""
        return next(reversed(self._held), "")

    @property
    def names(self) -> list[str]:
        """All that are ready."""
        return list(self._held)

    def close(self) -> bool:
        """End the threads of all tasks; False if one does not end in time."""
        with self._lock:  # a task may just be made ready
            ended = [task.close(self._timeout) for task in self._held.values()]
            if all(ended):
                self._held.clear()
            return all(ended)

    def _load(self, request: Any, response: Any) -> None:
        with self._lock:
            try:
                response.was_held = self._switch(request.name)
            finally:
                if task := self._held.get(self.serving):
                    response.task, response.model = task.name, task.loaded.name
                    response.labels = list(task.loaded.labels)
            self._let_go()

    def _switch(self, name: str) -> bool:
        """Serve a task; whether it was ready."""
        if not self._held:
            raise RequestError("NOT_READY", "nothing is loaded: configure the node first")
        if reason := self._node.can_switch():
            raise RequestError("NOT_READY", reason)
        if held := name in self._held:
            task = self._held[name]
        else:
            task = self._built(name, self._folder(name) if name else None)
        old = self._held[self.serving]
        self._node.serve_task(task)
        self._held[name] = task
        self._held.move_to_end(name)
        if old is not task:
            old.save_soon()
        self._logger.info(f"serves the task {name or 'of the parameter checkpoint'}")
        return held

    def _folder(self, name: str) -> Path:
        root = self._node.param("task_root")
        if not root:
            raise RequestError("NOT_READY", "the parameter task_root is not set")
        folder = Path(root).expanduser() / name
        if not is_task_name(name) or not (folder / JSON_NAME).is_file():
            raise RequestError("UNKNOWN_TASK", f"no task is called {name[:80]!r} in {root}")
        return folder

    def _built(self, name: str, folder: Path | None) -> ServedTask:
        found: list[ServedTask] = []

        def build() -> None:
            use_one_thread()
            found.append(self._node.build_task(name, folder))

        # A frame asks for the interpreter some hundred times, and each time waits so long for it.
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)
        try:
            run_in_thread(build)
        except (NewfoundError, StateError) as error:
            raise RequestError("BAD_TASK", " ".join(str(error).split())) from error
        finally:
            sys.setswitchinterval(usual)
        return found[0]

    def _let_go(self) -> None:
        while len(self._held) > self._node.param("held_tasks"):
            name, task = self._held.popitem(last=False)
            if not task.close(self._timeout):
                self._logger.error(f"the adaptation of the task {name!r} does not end")
