# SPDX-License-Identifier: Apache-2.0
"""The actions that learn (LearnClass, LearnSegment): a goal is a job, followed to its end.

A goal that cannot be granted is rejected, with the reason in the log. A goal that is accepted is
executed when its job has ended, not before: until then no thread of the executor is held, however
many goals wait in the queue. Feedback comes from the thread of the learning queue.
"""

import math
import threading
from typing import Any, Protocol

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import CallbackGroup

from newfound_core.errors import NewfoundError
from newfound_core.learning.job import JobState, JobStatus
from newfound_msgs.msg import ResultCode
from newfound_nodes.knowledge.messages import learning_message
from newfound_runtime.managed_node import ManagedNode

_RESULTS = {
    JobState.DONE: ResultCode.RESULT_OK,
    JobState.CANCELLED: ResultCode.RESULT_CANCELLED,
    JobState.REJECTED: ResultCode.RESULT_REJECTED,
    JobState.FAILED: ResultCode.RESULT_FAILED,
}


class JobRequests(Protocol):
    """What the action needs of the node."""

    def submit(self, request: Any) -> tuple[str, int]:
        """Queue the job of a goal; may raise a NewfoundError."""
        ...

    def cancel(self, job: str) -> bool:
        """Ask a job to stop."""
        ...

    def version(self) -> int:
        """The version of the knowledge in use."""
        ...


class LearnAction:
    """Serves an action whose goals have a label, and LearnClass's feedback and result."""

    def __init__(
        self,
        node: ManagedNode,
        group: CallbackGroup,
        requests: JobRequests,
        kind: Any,  # type of the action
        name: str,
    ) -> None:
        self._node, self._requests, self._kind = node, requests, kind
        self._lock = threading.Lock()
        self._submitted: dict[int, str] = {}  # goal request to its job, until it is accepted
        self._goals: dict[str, ServerGoalHandle] = {}  # by job
        self._ended: dict[str, JobStatus] = {}  # before its goal was accepted
        self._server = ActionServer(
            node,
            kind,
            f"~/{name}",
            execute_callback=lambda goal: kind.Result(),  # each goal brings its own
            callback_group=group,
            goal_callback=self._decide,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._cancel,
        )

    def job_changed(self, status: JobStatus) -> None:
        """Pass the status of a job on to the client that asked for it."""
        with self._lock:
            goal = self._goals.get(status.job)
            if status.state.final:
                self._goals.pop(status.job, None)
                self._ended = {status.job: status}  # jobs end one at a time
        if goal is not None:
            self._pass_on(goal, status)

    def _decide(self, request: Any) -> GoalResponse:
        try:
            job, _ = self._requests.submit(request)
        except NewfoundError as error:
            self._node.get_logger().warning(f"goal to learn {request.label!r} rejected: {error}")
            return GoalResponse.REJECT
        except Exception:
            self._node.log_traceback("goal rejected")
            return GoalResponse.REJECT
        with self._lock:
            self._submitted[id(request)] = job
        return GoalResponse.ACCEPT

    def _accepted(self, goal: ServerGoalHandle) -> None:
        with self._lock:
            job = self._submitted.pop(id(goal.request))
            ended = self._ended.get(job)
            if ended is None:
                self._goals[job] = goal
        if ended is not None:
            self._pass_on(goal, ended)

    def _cancel(self, goal: ServerGoalHandle) -> CancelResponse:
        with self._lock:
            job = next((job for job, other in self._goals.items() if other == goal), "")
        accepted = bool(job) and self._requests.cancel(job)
        return CancelResponse.ACCEPT if accepted else CancelResponse.REJECT

    def _pass_on(self, goal: ServerGoalHandle, status: JobStatus) -> None:
        if not status.state.final:
            stamp = self._node.get_clock().now().to_msg()
            goal.publish_feedback(self._kind.Feedback(status=learning_message(status, stamp)))
            return
        code = ResultCode.RESULT_STORAGE if status.storage_failed else _RESULTS[status.state]
        result = self._kind.Result(
            result=code,
            message=status.message,
            job_id=status.job,
            knowledge_version=self._requests.version(),
            accuracy_before=_number(status.accuracy_before),
            accuracy_after=_number(status.accuracy_after),
        )
        self._finish(goal, result)

    def _finish(self, goal: ServerGoalHandle, result: Any) -> None:
        def end(handle: ServerGoalHandle) -> Any:
            if result.result == ResultCode.RESULT_OK:
                handle.succeed()
            elif result.result == ResultCode.RESULT_CANCELLED and handle.is_cancel_requested:
                handle.canceled()
            else:
                handle.abort()
            return result

        if self._node.executor is not None:  # otherwise the node is going down
            goal.execute(end)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
