# SPDX-License-Identifier: Apache-2.0
"""Base class of every node: lifecycle, parameters, publishers, diagnostics."""

import copy
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from lifecycle_msgs.msg import State
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.exceptions import ParameterException
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.lifecycle.node import LifecycleNodeMixin
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.timer import Timer

from newfound_runtime import manager_bond
from newfound_runtime.manager_bond import ManagerBond
from newfound_runtime.parameters import Parameter, declare, problems
from newfound_runtime.rclpy_compat import (
    answer_impossible_transitions,
    current_state,
    undeclared_overrides,
)

LATCHED = QoSProfile(  # a late subscriber gets the last message
    depth=1,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
Status = tuple[bytes, str, dict[str, object]]  # level, sentence, values
Output = tuple[type, str, QoSProfile | int]  # message type, topic, quality of service


class LoadError(Exception):
    """Why the node cannot be configured or activated, in a sentence for who can fix it."""


class ManagedNode(LifecycleNodeMixin, Node):
    """A lifecycle node that survives its own errors.

    A subclass says what it is in `NAME`, `PARAMETERS` and `OUTPUTS`, and what it does in the
    hooks below. A hook may raise: the base logs the traceback and keeps a defined state.

    - `load` or `activated` raised: the transition fails, the node stays where it was; a
      `LoadError` is logged as one line;
    - a parameter hook raised: the change is refused, the old value stays;
    - any other hook raised: logged, the node goes on.
    """

    NAME: ClassVar[str]
    PARAMETERS: ClassVar[Sequence[Parameter]] = ()
    OUTPUTS: ClassVar[Mapping[str, tuple[type, QoSProfile | int]]] = {}  # on the topic ~/<name>

    PARAMETER_PREFIXES: ClassVar[tuple[str, ...]] = ()  # of names that are known after `load`

    COMMON_PARAMETERS: ClassVar[Sequence[Parameter]] = (
        Parameter("autostart", True, "Configure and activate by itself; off under a manager."),
        Parameter(
            "bond_heartbeat_period",
            0.0,
            "Period of heartbeats for a lifecycle manager (s), by bondpy; 0: no bond. Nav2: 0.25.",
            minimum=0.0,
            maximum=2.0,
        ),
    )

    # Hooks of a subclass -----------------------------------------------------------------

    def outputs(self) -> Mapping[str, Output]:
        """Publishers by name; override it if topics or QoS depend on parameters."""
        return {name: (kind, f"~/{name}", qos) for name, (kind, qos) in self.OUTPUTS.items()}

    def load(self) -> None:
        """Configure: read parameters, load the model. May be slow, may raise."""

    def activated(self) -> None:
        """Outputs are open: begin."""

    def deactivated(self) -> None:
        """Outputs are closed: stop, without waiting for anything slow."""

    def stop_threads(self) -> bool:
        """End the node's threads; False if one does not end. `unload` follows if all did."""
        return True

    def unload(self) -> None:
        """Clean up: release what `load` made."""

    def check_parameters(self, values: Mapping[str, Any]) -> str | None:
        """Say what is wrong with these new values as a whole, or None. Must change nothing."""
        return None

    def parameters_changed(self, names: set[str]) -> None:
        """Live parameters may have new values, which should count from now on."""

    def subscribers_changed(self) -> None:
        """A subscriber of an output has come or gone; also called once a second."""

    def health(self) -> Status:
        """Level, sentence and values for diagnostics while the node is active."""
        return DiagnosticStatus.OK, "running", {}

    def diagnose(self) -> Mapping[str, object]:
        """Further values for diagnostics: device, model version, state of adaptation."""
        return {}

    # For a subclass to call --------------------------------------------------------------

    def param(self, name: str) -> Any:
        """The present value of a parameter."""
        return self.get_parameter(name).value

    def wanted(self, output: str) -> bool:
        """Whether this output has a subscriber, so that computing it is worth the time."""
        return self._outputs[output].get_subscription_count() > 0

    def publish(self, output: str, message: Any) -> None:
        """Send a message; does nothing while the node is not active."""
        publisher = self._outputs[output]
        publisher.publish(message)
        self.published[output] += publisher.is_activated

    @property
    def last_error(self) -> str:
        """Why the node is not configured or active; empty if nothing failed."""
        return "; ".join(self._refused_at_start.values()) or self._last_error

    def state(self) -> int:
        """The lifecycle state now, one of lifecycle_msgs/State's numbers."""
        return current_state(self)[0]

    # Construction and end ----------------------------------------------------------------

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        Node.__init__(self, name or self.NAME, **node_arguments)
        # Reentrant and apart from everything else: the state can be asked for while a
        # transition loads a model, and the state machine itself refuses a second transition.
        self._lifecycle_group = ReentrantCallbackGroup()
        LifecycleNodeMixin.__init__(self, callback_group=self._lifecycle_group)
        answer_impossible_transitions(self)
        self._loaded = False
        self.on_loaded: Callable[[], None] = lambda: None  # set by who owns the process
        self._bond: ManagerBond | None = None
        self._diagnosing = threading.Lock()  # held while `diagnose` reads what `load` made
        self._last_error = ""  # why the last transition failed; empty after one that did not
        self._outputs: dict[str, Any] = {}
        self.published: Counter[str] = Counter()  # messages sent, by output
        self._declared: dict[str, Parameter] = {}
        self._refused_at_start: dict[str, str] = {}
        self._declare_parameters()
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._tick_timer = self.create_timer(1.0, self._tick)
        self._autostart_timer = self.create_timer(
            0.0, self._autostart, callback_group=self._lifecycle_group
        )

    def create_timer(self, *arguments: Any, **options: Any) -> Timer:
        """A timer that counts real seconds: with `use_sim_time` a recording may pause or loop."""
        return super().create_timer(*arguments, **{"clock": self._steady, **options})

    def close(self) -> None:
        """Release everything, whatever the state. For the end of the process."""
        self._end_bond()
        if self._loaded:
            self.log_exceptions(self.deactivated)
            if self.log_exceptions(self.stop_threads):
                self._unload()
        self._loaded = False

    def _unload(self) -> None:
        self._loaded = False
        with self._diagnosing:
            self.log_exceptions(self.unload)

    # Parameters --------------------------------------------------------------------------

    def _declare_parameters(self) -> None:
        """Declare all; a wrong value in a file keeps the node unconfigured, but alive."""
        for parameter in (*self.COMMON_PARAMETERS, *self.PARAMETERS):
            try:
                self._declared |= declare(self, [parameter])
                problem = parameter.problem(self.param(parameter.name))
            except ParameterException as error:
                self.declare_parameter(
                    parameter.name, parameter.default, parameter.descriptor(), ignore_override=True
                )
                self._declared[parameter.name] = parameter
                problem = f"{parameter.name}: {error}"
            if problem:
                self._refused_at_start[parameter.name] = problem
                self.get_logger().error(f"parameter refused: {problem}")
        for name in undeclared_overrides(self):
            if name.startswith(self.PARAMETER_PREFIXES):
                self.declare_parameter(name, "", ParameterDescriptor(dynamic_typing=True))
                continue
            self.get_logger().warning(
                f"parameter {name} is set but {self.NAME} has no such parameter: misspelled?"
            )
        self.add_on_set_parameters_callback(self._check_changes)
        self.add_post_set_parameters_callback(self._apply_changes)

    def _check_changes(self, changes: list[RosParameter]) -> SetParametersResult:
        loading = self.state() == State.TRANSITION_STATE_CONFIGURING
        found = problems(self._declared, changes, configured=self._loaded or loading)
        if not found:
            try:
                problem = self.check_parameters({c.name: c.value for c in changes})
                found = [problem] if problem else []
            except Exception as error:
                self.log_traceback("checking parameters raised; the change is refused")
                found = [f"checking it raised {type(error).__name__}: {error}"]
        return SetParametersResult(successful=not found, reason="; ".join(found))

    def _apply_changes(self, changes: list[RosParameter]) -> None:
        names = {change.name for change in changes}
        for name in names:
            self._refused_at_start.pop(name, None)
        prefixed = any(name.startswith(self.PARAMETER_PREFIXES) for name in names)
        if self._loaded and (prefixed or names & self._declared.keys()):
            self.log_exceptions(self.parameters_changed, names)

    # Lifecycle ---------------------------------------------------------------------------

    def _autostart(self) -> None:
        self._autostart_timer.cancel()
        if not self.param("autostart") or self.state() != State.PRIMARY_STATE_UNCONFIGURED:
            return
        if self.trigger_configure() == SUCCESS:
            self.trigger_activate()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Make the publishers and load; on failure the node stays unconfigured."""
        if self._refused_at_start:
            reasons = "; ".join(self._refused_at_start.values())
            return self._fail(f"not configured, set these parameters first: {reasons}")
        if self.param("bond_heartbeat_period") and not manager_bond.AVAILABLE:
            return self._fail(f"not configured: {manager_bond.MISSING}")
        started = time.monotonic()
        try:
            self._create_outputs()
            run_in_thread(self._load)
        except LoadError as error:
            self._destroy_outputs()
            return self._fail(f"not configured: {error}")
        except Exception as error:
            self._destroy_outputs()
            return self._fail(f"not configured: {type(error).__name__}: {error}", traceback=True)
        self._last_error = ""
        self.get_logger().info(f"configured in {time.monotonic() - started:.1f} s")
        return super().on_configure(state)

    def _fail(self, reason: str, *, traceback: bool = False) -> TransitionCallbackReturn:
        """Log why a transition failed, and keep it for diagnostics."""
        if not self.context.ok():
            return FAILURE  # Ctrl-C during start-up: not an error of the node
        self._last_error = reason
        if traceback:
            self.log_traceback(reason)
        else:
            self.get_logger().error(reason)
        return FAILURE

    def _load(self) -> None:
        self.load()
        self._loaded = True
        # `load` may have read a live parameter before it was changed.
        live = {p.name for p in self._declared.values() if p.live}
        self.log_exceptions(self.parameters_changed, live)
        self.on_loaded()

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Open the outputs and begin; on failure the node stays inactive."""
        result = super().on_activate(state)
        try:
            self.activated()
        except Exception as error:
            known = isinstance(error, LoadError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            failed = self._fail(f"not activated: {reason}", traceback=not known)
            self.log_exceptions(self.deactivated)
            super().on_deactivate(state)
            return failed
        self._last_error = ""
        if period := self.param("bond_heartbeat_period"):
            self._bond = ManagerBond(self, period)
        return result

    def _end_bond(self) -> None:
        bond, self._bond = self._bond, None
        if bond is not None:
            self.log_exceptions(bond.close)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop at once: what is still in work is not published."""
        self._end_bond()
        result = super().on_deactivate(state)
        self.log_exceptions(self.deactivated)
        return result

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release the model; fails, and can be tried again, while a thread does not end."""
        if not self.log_exceptions(self.stop_threads):
            return FAILURE
        self._unload()
        self._destroy_outputs()
        self._last_error = ""
        return SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """From any state, for good."""
        self.close()
        self._destroy_outputs()
        return SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """A transition broke in a way the base did not expect: back to unconfigured."""
        self.get_logger().error(f"a transition from '{state.label}' failed; unconfigured now")
        return self.on_shutdown(state)

    # Outputs and reports -----------------------------------------------------------------

    def _create_outputs(self) -> None:
        events = PublisherEventCallbacks(matched=lambda _: self._subscribers_changed())
        for name, (message_type, topic, profile) in self.outputs().items():
            self._outputs[name] = self.create_lifecycle_publisher(
                message_type,
                topic,
                copy.copy(profile),  # rclpy writes overrides into it
                event_callbacks=events,
                qos_overriding_options=QoSOverridingOptions.with_default_policies(),
            )

    def _destroy_outputs(self) -> None:
        for publisher in self._outputs.values():
            self.destroy_lifecycle_publisher(publisher)
        self._outputs = {}

    def _subscribers_changed(self) -> None:
        if self.state() == State.PRIMARY_STATE_ACTIVE:
            self.log_exceptions(self.subscribers_changed)

    def _tick(self) -> None:
        """Once a second: notice new subscribers, publish diagnostics."""
        self._subscribers_changed()
        label = current_state(self)[1]
        level, text, values = DiagnosticStatus.OK, label, {}
        if self._refused_at_start:
            level, text = DiagnosticStatus.ERROR, "; ".join(self._refused_at_start.values())
        elif label == "active":
            unknown: Status = (DiagnosticStatus.ERROR, "health failed; see the log", {})
            level, text, values = self.log_exceptions(self.health) or unknown
        elif self._last_error:
            level, text = DiagnosticStatus.ERROR, self._last_error
        if self._loaded:
            values = {**values, **self._diagnosis()}
        now, name = self.get_clock().now().to_msg(), self.get_fully_qualified_name()
        message = status_message(now, name, level, text, {"state": label, **values})
        self._diagnostics.publish(message)

    def _diagnosis(self) -> Mapping[str, object]:
        with self._diagnosing:
            return (self.log_exceptions(self.diagnose) or {}) if self._loaded else {}

    def log_exceptions(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a hook; if it raises, log the traceback and return None."""
        try:
            return function(*arguments)
        except Exception:
            if self.context.ok():  # otherwise the process is going down, and ROS with it
                self.log_traceback(f"{function.__name__} failed")
            return None

    def log_traceback(self, what: str) -> None:
        """Log the exception being handled."""
        self.get_logger().error(f"{what}\n{traceback.format_exc()}")


def run_in_thread(work: Callable[[], None]) -> None:
    """Run something in a thread that ends with it.

    OpenMP keeps a pool of threads for every living thread that has computed, and once there are
    more of them than cores it lets all of them sleep between any two operations: a pass of a
    network takes half as long again. The frames' worker should have the only pool.
    """
    with ThreadPoolExecutor(1) as executor:
        executor.submit(work).result()


def status_message(
    stamp: object, name: str, level: bytes, text: str, values: Mapping[str, object]
) -> DiagnosticArray:
    """One node's status as it goes out on /diagnostics."""
    status = DiagnosticStatus(level=level, name=name, message=text)
    status.hardware_id = str(values.get("device", ""))
    status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
    array = DiagnosticArray(status=[status])
    array.header.stamp = stamp
    return array
