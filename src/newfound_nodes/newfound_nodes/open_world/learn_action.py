# SPDX-License-Identifier: Apache-2.0
"""The LearnClass action: a goal is a learning job, followed to its end.

A goal is executed when its job has ended, not before: until then no thread of the executor is
held, however many goals wait in the queue. Feedback comes from the thread of the queue.
"""

import math
import threading
from collections.abc import Callable
from typing import Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from newfound_msgs.action import LearnClass
from newfound_nodes.open_world.job_status import JobStatus
from newfound_nodes.open_world.messages import learning_message

Result = LearnClass.Result
_RESULTS = {
    "done": Result.RESULT_OK,
    "cancelled": Result.RESULT_CANCELLED,
    "rejected": Result.RESULT_REJECTED,
    "failed": Result.RESULT_FAILED,
}


class LearnAction:
    """Serves `~/learn_class`."""

    def __init__(
        self,
        node: Node,
        group: CallbackGroup,
        submit: Callable[[Any], Any],  # goal to a response of AddUnknownClass
        cancel: Callable[[str], bool],
        version: Callable[[], int],
    ) -> None:
        self._node, self._submit, self._cancel, self._version = node, submit, cancel, version
        self._lock = threading.Lock()
        self._goals: dict[str, ServerGoalHandle] = {}  # by job
        self._early: dict[str, JobStatus] = {}  # ended before its goal was noted
        self._server = ActionServer(
            node,
            LearnClass,
            "~/learn_class",
            execute_callback=lambda goal: Result(),  # each goal brings its own
            callback_group=group,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._cancelled,
        )

    def job_changed(self, status: JobStatus) -> None:
        """Pass on where a job is to whoever asked for it."""
        with self._lock:
            goal = self._goals.get(status.job)
            if status.final:
                self._goals.pop(status.job, None)
                self._early = {status.job: status}  # jobs end one at a time
        if goal is not None:
            self._tell(goal, status)

    def destroy(self) -> None:
        """Let go of the action's services and topics."""
        self._server.destroy()

    def _accepted(self, goal: ServerGoalHandle) -> None:
        answer = self._submit(goal.request)
        if answer.result != answer.RESULT_OK:
            self._finish(goal, _result(self._version(), answer.result, answer.message))
            return
        with self._lock:
            ended = self._early.get(answer.job_id)
            if ended is None:
                self._goals[answer.job_id] = goal
        if ended is not None:
            self._tell(goal, ended)

    def _cancelled(self, goal: ServerGoalHandle) -> CancelResponse:
        with self._lock:
            job = next((job for job, other in self._goals.items() if other == goal), "")
        accepted = bool(job) and self._cancel(job)
        return CancelResponse.ACCEPT if accepted else CancelResponse.REJECT

    def _tell(self, goal: ServerGoalHandle, status: JobStatus) -> None:
        if not status.final:
            stamp = self._node.get_clock().now().to_msg()
            goal.publish_feedback(LearnClass.Feedback(status=learning_message(status, stamp)))
            return
        code = Result.RESULT_STORAGE if status.storage else _RESULTS[status.stage]
        result = _result(self._version(), code, status.message)
        result.job_id = status.job
        result.accuracy_before = _number(status.accuracy_before)
        result.accuracy_after = _number(status.accuracy_after)
        self._finish(goal, result)

    def _finish(self, goal: ServerGoalHandle, result: Any) -> None:
        def end(handle: ServerGoalHandle) -> Any:
            if result.result == Result.RESULT_OK:
                handle.succeed()
            elif result.result == Result.RESULT_CANCELLED and handle.is_cancel_requested:
                handle.canceled()
            else:
                handle.abort()
            return result

        if self._node.executor is not None:  # otherwise the node is going down
            goal.execute(end)


def _result(version: int, code: int, message: str) -> Any:
    nan = math.nan
    return Result(
        result=code,
        message=message,
        knowledge_version=version,
        accuracy_before=nan,
        accuracy_after=nan,
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
