# SPDX-License-Identifier: Apache-2.0
"""The base of every runtime node: lifecycle, back-pressure, diagnostics, survival of bad input."""

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import State
from rcl_interfaces.msg import SetParametersResult
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.exceptions import ParameterException
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.lifecycle.node import LifecycleNodeMixin
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter
from rclpy.qos import QoSProfile

from newfound_nodes.diagnostics import StreamHealth, status_message
from newfound_nodes.image_input import ImageInput, Letter, open_letter
from newfound_nodes.images import Frame, ImageError
from newfound_nodes.parameters import Parameter, declare, problems

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
REPORT_EVERY = 5.0  # s between two reports of the same kind of trouble
WORKER_PATIENCE = 60.0  # s that a clean-up waits for the frame in work
MAX_AGE = 3600.0  # s; an older or younger stamp is of another clock


class PerceptionNode(LifecycleNodeMixin, Node):
    """A lifecycle node that runs a model on the newest image of a camera.

    A subclass says what it is in `NAME`, `PARAMETERS` and `OUTPUTS`, and what it does in
    `load` (configure), `process` (one frame) and, if need be, the other hooks below. All of
    its code may raise: the base logs the traceback and keeps the node in a defined state.

    - `load` raised: configure fails, the node stays unconfigured.
    - `process` raised: the frame counts as failed, the node goes on with the next one.
    - a parameter hook raised: the change is refused, the old value stays.
    """

    NAME: ClassVar[str]
    PARAMETERS: ClassVar[Sequence[Parameter]] = ()
    OUTPUTS: ClassVar[Mapping[str, tuple[type, QoSProfile | int]]] = {}

    COMMON_PARAMETERS: ClassVar[Sequence[Parameter]] = (
        Parameter("autostart", True, "Configure and activate by itself; off under a manager."),
        Parameter("image_topic", "image", "Topic of the camera image; remapping works too."),
        Parameter(
            "image_transport",
            "raw",
            "raw: sensor_msgs/Image; compressed: CompressedImage on the sibling topic.",
            choices=("raw", "compressed"),
        ),
        Parameter(
            "image_reliability",
            "auto",
            "Reliability asked of the camera; auto: what its publisher offers.",
            choices=("auto", "reliable", "best_effort"),
        ),
    )

    # Hooks of a subclass -----------------------------------------------------------------

    def load(self) -> None:
        """Configure: read parameters, load the model. May be slow, may raise."""

    def process(self, frame: Frame) -> None:
        """Worker thread: one frame in, messages out by `publish`. May be slow, may raise."""
        raise NotImplementedError

    def unload(self) -> None:
        """Clean up: let go of what `load` made. The worker has ended."""

    def check_parameters(self, values: Mapping[str, Any]) -> str | None:
        """Say what is wrong with these new values as a whole, or None. Must change nothing."""
        return None

    def parameters_changed(self, names: set[str]) -> None:
        """Live parameters have new values; the next frame should go by them."""

    def needs_every_frame(self) -> bool:
        """Whether frames are needed even if nobody listens to an output (adaptation)."""
        return False

    def diagnose(self) -> Mapping[str, object]:
        """Further values for diagnostics: device, model version, state of adaptation."""
        return {}

    # For a subclass to call --------------------------------------------------------------

    def param(self, name: str) -> Any:
        """The present value of a parameter."""
        return self.get_parameter(name).value

    def wanted(self, output: str) -> bool:
        """Whether somebody listens to this output, so that making it is worth the time."""
        return self._outputs[output].get_subscription_count() > 0

    def publish(self, output: str, message: Any) -> None:
        """Send a message; does nothing while the node is not active."""
        self._outputs[output].publish(message)

    # Construction and end ----------------------------------------------------------------

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        Node.__init__(self, name or self.NAME, **node_arguments)
        # Reentrant and apart from everything else: the state can be asked for while a
        # transition loads a model, and the state machine itself refuses a second transition.
        self._lifecycle_group = ReentrantCallbackGroup()
        LifecycleNodeMixin.__init__(self, callback_group=self._lifecycle_group)
        self._answer_impossible_transitions()
        self._outputs: dict[str, Any] = {}
        self._input: ImageInput | None = None
        self._worker: threading.Thread | None = None
        self._health = StreamHealth()
        self._last_report: dict[str, float] = {}
        self._declared: dict[str, Parameter] = {}
        self._refused_at_start: dict[str, str] = {}
        self._declare_parameters()
        self._diagnostics = Node.create_publisher(self, DiagnosticArray, "/diagnostics", 10)
        self._tick_timer = self.create_timer(1.0, self._tick)
        self._autostart_timer = self.create_timer(
            0.0, self._autostart, callback_group=self._lifecycle_group
        )

    def close(self) -> None:
        """End the worker and let go of the model, whatever the state. For process exit."""
        self._stop_worker()
        if self._input is not None:
            self._guarded(self.unload)
        self._input = None

    # Parameters --------------------------------------------------------------------------

    def _declare_parameters(self) -> None:
        """Declare all; a wrong value in a file keeps the node unconfigured, but alive."""
        for parameter in (*self.COMMON_PARAMETERS, *self.PARAMETERS):
            try:
                self._declared |= declare(self, [parameter])
                complaint = parameter.problem(self.param(parameter.name))
            except ParameterException as error:
                self.declare_parameter(
                    parameter.name, parameter.default, parameter.descriptor(), ignore_override=True
                )
                self._declared[parameter.name] = parameter
                complaint = f"{parameter.name}: {error}"
            if complaint:
                self._refused_at_start[parameter.name] = complaint
                self.get_logger().error(f"parameter refused: {complaint}")
        self.add_on_set_parameters_callback(self._check_changes)
        self.add_post_set_parameters_callback(self._apply_changes)

    def _check_changes(self, changes: list[RosParameter]) -> SetParametersResult:
        found = problems(self._declared, changes, configured=self._input is not None)
        if not found:
            try:
                complaint = self.check_parameters({c.name: c.value for c in changes})
                found = [complaint] if complaint else []
            except Exception as error:
                self._log_traceback("checking parameters raised; the change is refused")
                found = [f"checking it raised {type(error).__name__}: {error}"]
        return SetParametersResult(successful=not found, reason="; ".join(found))

    def _apply_changes(self, changes: list[RosParameter]) -> None:
        names = {change.name for change in changes}
        for name in names:
            self._refused_at_start.pop(name, None)
        if self._input is not None and names & self._declared.keys():
            self._guarded(self.parameters_changed, names)

    # Lifecycle ---------------------------------------------------------------------------

    def _autostart(self) -> None:
        self._autostart_timer.cancel()
        if not self.param("autostart") or self.state() != State.PRIMARY_STATE_UNCONFIGURED:
            return
        if self.trigger_configure() == SUCCESS:
            self.trigger_activate()

    def state(self) -> int:
        """The lifecycle state now, one of lifecycle_msgs/State's numbers."""
        return self._state_machine.current_state[0]

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the model and make the publishers; on failure the node stays unconfigured."""
        if self._refused_at_start:
            reasons = "; ".join(self._refused_at_start.values())
            self.get_logger().error(f"not configured, set these parameters first: {reasons}")
            return FAILURE
        started = time.monotonic()
        try:
            self._make_outputs()
            self.load()
            self._input = ImageInput(
                self,
                self.param("image_topic"),
                self.param("image_transport"),
                self.param("image_reliability"),
            )
        except Exception:
            self._log_traceback("not configured: load failed")
            self._destroy_outputs()
            return FAILURE
        self._worker = threading.Thread(
            target=self._work, args=(self._input,), name=f"{self.get_name()}-worker", daemon=True
        )
        self._worker.start()
        self.get_logger().info(f"configured in {time.monotonic() - started:.1f} s")
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let outputs out and frames in."""
        result = super().on_activate(state)
        if result == SUCCESS:
            self._refresh_input(active=True)
        return result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop at once: what the model still works on is not published."""
        self._input.close()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let go of the model; fails if the worker does not come back from its frame."""
        if not self._stop_worker():
            return FAILURE
        self._guarded(self.unload)
        self._input = None
        self._destroy_outputs()
        return SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """From any state, for good."""
        self.close()
        self._destroy_outputs()
        return SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """A transition broke in a way the base did not expect: back to unconfigured."""
        self.get_logger().error(f"a transition from '{state.label}' failed; unconfigured now")
        self.close()
        self._destroy_outputs()
        return SUCCESS

    def _answer_impossible_transitions(self) -> None:
        """Answer a transition that the state does not allow with success=False.

        rclpy raises out of the service callback instead: the client would wait for ever and
        the executor, with all its other nodes, would stop.
        """
        change_state = self._service_change_state.callback

        def answering(request: Any, response: Any) -> Any:
            try:
                return change_state(request, response)
            except rclpy_implementation.RCLError:
                wish = request.transition.label or request.transition.id
                here = self._state_machine.current_state[1]
                self.get_logger().warning(f"transition '{wish}' is not possible in '{here}'")
                response.success = False
                return response

        self._service_change_state.callback = answering

    # Outputs and input -------------------------------------------------------------------

    def _make_outputs(self) -> None:
        events = PublisherEventCallbacks(matched=lambda _: self._refresh_input())
        for name, (message_type, profile) in self.OUTPUTS.items():
            self._outputs[name] = self.create_lifecycle_publisher(
                message_type, f"~/{name}", profile, event_callbacks=events
            )

    def _destroy_outputs(self) -> None:
        for publisher in self._outputs.values():
            self.destroy_lifecycle_publisher(publisher)
        self._outputs = {}

    def _refresh_input(self, active: bool | None = None) -> None:
        """Ask for frames if, and as, they are needed now."""
        if active is None:
            active = self.state() == State.PRIMARY_STATE_ACTIVE
        if self._input is None or not active:
            return
        listened_to = any(self.wanted(output) for output in self._outputs)
        self._input.refresh(listened_to or self.needs_every_frame())

    # The worker --------------------------------------------------------------------------

    def _work(self, source: ImageInput) -> None:
        while (letter := source.mailbox.take()) is not None:
            try:
                self.process(open_letter(letter))
            except ImageError as error:
                source.counters.fail()
                if self._due("decode"):
                    self.get_logger().warning(f"frame skipped: {error}")
            except Exception:
                if not self.context.ok():
                    return  # the process is going down: publishing is over
                source.counters.fail()
                if self._due("process"):
                    self._log_traceback("process failed; frame skipped")
            else:
                latency = time.monotonic() - letter.received
                source.counters.finish(latency, self._age(letter))

    def _age(self, letter: Letter) -> float | None:
        stamp = letter.message.header.stamp
        age = self.get_clock().now().nanoseconds * 1e-9 - (stamp.sec + stamp.nanosec * 1e-9)
        return age if abs(age) < MAX_AGE else None

    def _stop_worker(self) -> bool:
        if self._input is not None:
            self._input.close()
            self._input.mailbox.close()
        if self._worker is not None:
            self._worker.join(WORKER_PATIENCE)
            if self._worker.is_alive():
                self.get_logger().error(
                    f"the model has worked on one frame for more than {WORKER_PATIENCE:.0f} s"
                )
                return False
        self._worker = None
        return True

    # Reports -----------------------------------------------------------------------------

    def _tick(self) -> None:
        """Once a second: match the cameras' QoS, tell how things are."""
        self._guarded(self._refresh_input)
        label = self._state_machine.current_state[1]
        level, text, values = DiagnosticStatus.OK, label, {}
        if self._refused_at_start:
            level, text = DiagnosticStatus.ERROR, "; ".join(self._refused_at_start.values())
        source = self._input
        if source is not None:
            values = {"topic": source.topic, "reliability": source.reliability()}
            if label == "active":
                level, text, numbers = self._health.assess(source.counters, source.subscribed)
                values |= numbers
            values |= self._guarded(self.diagnose) or {}
        message = status_message(
            self.get_clock().now().to_msg(),
            self.get_fully_qualified_name(),
            level,
            text,
            {"state": label, **values},
        )
        self._diagnostics.publish(message)

    def _guarded(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a hook; if it raises, log and return None."""
        try:
            return function(*arguments)
        except Exception:
            self._log_traceback(f"{function.__name__} failed")
            return None

    def _log_traceback(self, what: str) -> None:
        self.get_logger().error(f"{what}\n{traceback.format_exc()}")

    def _due(self, kind: str) -> bool:
        """Whether it is time to report this kind of trouble with frames again."""
        now = time.monotonic()
        if now - self._last_report.get(kind, -REPORT_EVERY) < REPORT_EVERY:
            return False
        self._last_report[kind] = now
        return True
