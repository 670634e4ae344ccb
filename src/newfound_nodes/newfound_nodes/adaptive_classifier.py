# SPDX-License-Identifier: Apache-2.0
"""Classifies the camera's images with a network that keeps itself aligned with what it sees."""

from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup

from newfound_core.errors import ConfigError, NewfoundError
from newfound_core.inference import Inference
from newfound_core.models import LoadedModel
from newfound_core.onda import OndaConfig, OndaStatus
from newfound_core.onda.folding import logits_of
from newfound_core.predictive import AdaGraphClassifier, DomainGraph, Measurer
from newfound_msgs.msg import AdaptationStatus, Classification
from newfound_nodes import tasks
from newfound_nodes.adaptation import interface, prediction
from newfound_nodes.adaptation.interface import AdaptationServices, status_message
from newfound_nodes.adaptation.prediction import DomainPredictor, MetadataInputs
from newfound_nodes.adaptation.state import AdaptationStore, StateError
from newfound_nodes.adaptation.updates import (
    ALARM,
    RESTORED,
    Adaptation,
    AdaptationReport,
    Persistence,
)
from newfound_nodes.debug_images import Chart
from newfound_nodes.model_node import ModelNode, one_line, probabilities_of
from newfound_nodes.tasks import ServedTask, Tasks
from newfound_runtime import perception_node
from newfound_runtime.images import Frame
from newfound_runtime.managed_node import LoadError, Status
from newfound_runtime.parameters import Parameter
from newfound_runtime.shipped_models import find_checkpoint

STATUS_PERIOD = 1.0  # s between two AdaptationStatus
DRIFT_SHOWN = 0.5  # nats that fill a bar of the debug image


class AdaptiveClassifier(ModelNode):
    """One `Classification` for each image; ONDA follows the stream in another thread."""

    NAME = "adaptive_classifier"
    METHODS: ClassVar[Collection[str]] = ("source", "adagraph", "mda")
    TASK_METHODS: ClassVar[tuple[str, ...]] = ("source",)  # of what ~/load_task takes
    PARAMETER_PREFIXES: ClassVar[tuple[str, ...]] = (prediction.PREFIX,)
    PARAMETERS = (
        Parameter(
            "checkpoint",
            "sim_workbench",
            "Folder of a checkpoint of method source, adagraph or mda, or a shipped one's name.",
        ),
        *tasks.PARAMETERS,
        *interface.PARAMETERS,
        *prediction.PARAMETERS,
        Parameter(
            "persist_adaptation",
            False,
            "Go on from the adapted state of the last run, and save it now and then.",
        ),
        Parameter(
            "persist_period",
            60.0,
            "Seconds between two savings of the adapted state.",
            minimum=0.1,
            maximum=86400.0,
        ),
        Parameter("state_dir", "", "Folder of adapted states; empty: newfound in ROS_HOME."),
    )
    OUTPUTS: ClassVar = {
        "classification": (Classification, 10),
        "adaptation": (AdaptationStatus, 10),
    }

    def __init__(self, name: str | None = None, **node_arguments: Any) -> None:
        self._adaptation: Adaptation | None = None
        self._predictor: DomainPredictor | None = None
        self._inputs: MetadataInputs | None = None
        self._header: Any = None  # of the last image
        self._domain_weights: deque[np.ndarray] = deque()  # of the last images
        self._persistence: Persistence | None = None
        self._save_timer: Any = None
        super().__init__(name, **node_arguments)
        # A call may wait for the frame in work; parameters and the state answer meanwhile.
        self._group = MutuallyExclusiveCallbackGroup()
        self.tasks = Tasks(self, perception_node.WORKER_TIMEOUT)
        if self.TASK_METHODS:
            self.tasks.offer(MutuallyExclusiveCallbackGroup())
        AdaptationServices(self, self._group, lambda: self._adaptation, self.publish_status)
        self.status_timer = self.create_timer(
            STATUS_PERIOD, self.publish_status, callback_group=self._group
        )

    # Lifecycle ---------------------------------------------------------------------------

    def load(self) -> None:
        """The model and, unless `adapt` is off, ONDA around it, where the last run ended."""
        super().load()
        try:
            self._begin()
        except (NewfoundError, StateError) as error:
            super().unload()
            raise LoadError(_reason(error)) from error

    def _begin(self) -> None:
        """Serve the checkpoint of the parameter."""
        graph, measurer = self._domain_graph() if self.adapts() else None, None
        if graph is not None:  # with the source's statistics, before a saved state is restored
            model = self.loaded.model
            assert isinstance(model, AdaGraphClassifier)
            measurer = model.measurer(self.loaded.metadata.preprocessing)
        task = self._with_adaptation("", self.loaded, self.inference)
        self._begin_with(task)
        if graph is not None and measurer is not None and task.adaptation is not None:
            self._predict_domains(graph, measurer, task.adaptation)
        self.served()

    def _begin_with(self, task: ServedTask) -> None:
        """Serve a task, and no other beside it."""
        self._adaptation, self._persistence = task.adaptation, task.persistence
        if task.persistence is not None and self._save_timer is None:
            self._save_timer = self.create_timer(
                self.param("persist_period"), self._save_soon, callback_group=self._group
            )
        self.tasks.begin(task)

    def adapts(self) -> bool:
        """As the parameter says."""
        return self.param("adapt")

    def _with_adaptation(self, name: str, loaded: LoadedModel, inference: Inference) -> ServedTask:
        """A task with ONDA around its model, where the last run ended if that is wanted."""
        if not self.adapts():
            return ServedTask(name, loaded, inference)
        node = self.get_fully_qualified_name()
        store = AdaptationStore(self.param("state_dir"), node, loaded.digest)
        persistence = None
        if self.param("persist_adaptation"):
            shared = bool(self.TASK_METHODS) and bool(self.param("task_root"))
            persistence = Persistence(store, self.get_logger(), shared=shared)
        onda = inference.build_onda(self._config({}))
        adaptation = Adaptation(onda, store, self._now, self._adaptation_failed)
        adaptation.set_frozen(self.param("freeze"))
        if persistence is not None:
            persistence.follow(adaptation)
        inference.serve(adaptation)
        return ServedTask(name, loaded, inference, adaptation, persistence)

    def _save_soon(self) -> None:
        if self._persistence is not None:
            self._persistence.save_soon()

    def _domain_graph(self) -> DomainGraph | None:
        """The model's graph of domains; an error if the metadata given are not of it."""
        model = self.loaded.model
        given = prediction.written(self)
        if isinstance(model, AdaGraphClassifier):
            graph = model.domain_graph()
            graph.schema.check(given)
            return graph
        if given:
            raise ConfigError(
                f"the parameter metadata.{min(given)} is set, but {self.loaded.name} has no graph "
                "of domains: use a checkpoint of train-predictive"
            )
        return None

    def _predict_domains(
        self, graph: DomainGraph, measurer: Measurer, adaptation: Adaptation
    ) -> None:
        """Start from predicted statistics, unless a saved state goes on."""
        predictor = DomainPredictor(graph, adaptation, measurer, self.get_logger().info)
        predictor.change_threshold = self.param("change_threshold")
        restored = adaptation.report().reset_reason == RESTORED
        predictor.begin(prediction.written(self), predict=not restored)
        prediction.declare_fields(self, graph)
        self._predictor = predictor
        self._inputs = MetadataInputs(self, self._group, predictor)

    def _adaptation_failed(self) -> None:
        if self.due("adaptation"):
            self.log_traceback("adaptation failed; frames go on")

    def deactivated(self) -> None:
        """No further frames; what was adapted to is saved in the background."""
        super().deactivated()
        self._save_soon()

    def stop_threads(self) -> bool:
        """End both threads; that of the adaptation finishes what it has to save."""
        if not super().stop_threads():
            return False
        if not self.tasks.close():
            self.get_logger().error("an update of the statistics does not end")
            return False
        return True

    def unload(self) -> None:
        """Let go of the model and its adaptation."""
        if self._save_timer is not None:
            self.destroy_timer(self._save_timer)
        if self._inputs is not None:
            self._inputs.close()
        self._save_timer = self._adaptation = self._persistence = self._header = None
        self._domain_weights.clear()
        self._predictor = self._inputs = None
        super().unload()

    # Tasks -------------------------------------------------------------------------------

    def can_switch(self) -> str:
        """Why no task can be loaded now; empty if one can."""
        if self._predictor is not None:
            return "a checkpoint with a graph of domains serves alone: configure with another one"
        return ""

    def build_task(self, name: str, folder: Path | None) -> ServedTask:
        """A task ready for frames; no folder: the checkpoint of the parameter."""
        if folder is None:
            built = self.build(find_checkpoint(self.param("checkpoint")), self.METHODS)
        else:
            built = self.build(folder, self.TASK_METHODS)
        return self._with_adaptation(name, *built)

    def serve_task(self, task: ServedTask) -> None:
        """Let a task take over, with live parameters as they are now."""
        with self.between_frames:
            self.loaded, self.inference = task.loaded, task.inference
            self._adaptation, self._persistence = task.adaptation, task.persistence
            self._domain_weights.clear()
            self.parameters_changed({"freeze", *interface.NAMES})
            self.served()

    def served(self) -> None:
        """Hook: another model serves from the next frame on."""

    # Frames ------------------------------------------------------------------------------

    def needs_every_frame(self) -> bool:
        """Adaptation needs frames even without a subscriber."""
        return self._adaptation is not None and not self.param("freeze")

    def settled(self) -> bool:
        """Whether no update of the statistics is being estimated."""
        return self._adaptation is None or not self._adaptation.updating

    def process(self, frame: Frame) -> None:
        """One image in, its class out."""
        adaptation = self._adaptation
        if self._predictor is not None:
            self._predictor.observe(frame.rgb)
        updates = adaptation.report().updates if adaptation else 0
        output = self.inference([frame.rgb])
        self.note_domains(output)
        probabilities = probabilities_of(logits_of(output)[0])
        answer = self.answer(probabilities)
        message = Classification(
            header=frame.header,
            entropy=entropy(np.array(answer["probabilities"])),
            model=self.loaded.name,
            adaptation_updates=updates,
            **answer,
        )
        self.publish("classification", message)
        self.publish_vision(frame.header, probabilities)
        self._header = frame.header
        if adaptation is not None:
            adaptation.count_frame(message.entropy)
        if self.debug_wanted():
            self._show(frame, message)

    def note_domains(self, output: Any) -> None:
        """Remember to which domains the last images belonged, if the model has any."""
        weights = getattr(output, "domain_weights", None)
        if weights is not None and weights.shape[1]:
            self._domain_weights.append(weights[0].detach().cpu().double().numpy())
            while len(self._domain_weights) > self.param("frames_per_update"):
                self._domain_weights.popleft()

    def _show(self, frame: Frame, message: Classification) -> None:
        caption = f"{message.label or 'unknown'}  {message.confidence:.0%}"
        if self._adaptation is None:
            chart = Chart("classes", message.probabilities, message.labels)
        else:
            drift = self._adaptation.onda.drift()
            state = "frozen" if self.param("freeze") else "adapting"
            title = f"{state}, {message.adaptation_updates} updates, drift {drift.mean:.3f}"
            chart = Chart(title, list(drift.per_layer.values()), full=DRIFT_SHOWN)
        self.publish_debug(frame, caption, chart)

    # Parameters --------------------------------------------------------------------------

    def _config(self, changes: Mapping[str, Any]) -> OndaConfig:
        values = {name: self.param(name) for name in interface.NAMES}
        refines = any(p.name == "refine_rate" for p in self.PARAMETERS)  # places do not
        more = {"refine_rate": self.param("refine_rate")} if refines else {}
        return OndaConfig(**interface.options({**values, **changes}), **more)

    def check_parameters(self, values: Mapping[str, Any]) -> str | None:
        """Options of ONDA must make sense together, and metadata must be of the graph."""
        try:
            if interface.NAMES & set(values):
                self._config(values)
            if self._predictor is not None:
                self._predictor.check(prediction.fields_among(values))
        except NewfoundError as error:
            return _reason(error)
        return None

    def parameters_changed(self, names: set[str]) -> None:
        """New options count from the next frame on."""
        if self._adaptation is None:
            return
        if "freeze" in names:
            self._adaptation.set_frozen(self.param("freeze"))
        if names & interface.NAMES:
            wanted, onda = self._config({}), self._adaptation.onda
            changed = {k: v for k, v in vars(wanted).items() if v != getattr(onda.config, k)}
            onda.reconfigure(**changed)
        if self._predictor is not None:
            self._predictor.change_threshold = self.param("change_threshold")
            values = {name: self.param(name) for name in names if name != "change_threshold"}
            if fields := prediction.fields_among(values):
                self._predictor.describe(fields)

    # Reports -------------------------------------------------------------

    def publish_status(self) -> None:
        """Publish the state of adaptation, if it has a subscriber."""
        if self.state() == State.PRIMARY_STATE_ACTIVE and self.wanted("adaptation"):
            message = status_message(self._adaptation, self._header)
            if weights := list(self._domain_weights):
                mean = np.mean(weights, 0)
                message.node_names = list(self.loaded.metadata.domains)
                message.node_weights = (mean / mean.sum()).tolist()
            self.publish("adaptation", message)

    def health(self) -> Status:
        """How the stream does, and whether it is followed."""
        level, text, values = super().health()
        report = self._adaptation.report() if self._adaptation else AdaptationReport()
        if report.failing:
            level = max(level, DiagnosticStatus.WARN)
            text += f"; adaptation fails ({report.updates_failed} updates), see the log"
        status = self._adaptation.onda.status() if self._adaptation else OndaStatus()
        if status.resting and report.reset_reason == ALARM:
            level = max(level, DiagnosticStatus.WARN)
            text += f"; adaptation was lost and rests: {status.last_alarm}"
        return level, text, values

    def diagnose(self) -> Mapping[str, object]:
        """The model, and how far it has moved."""
        adaptation = self._adaptation
        if adaptation is None:
            return {**super().diagnose(), **self._task_values(), "adaptation": "off"}
        report, drift, status = (
            adaptation.report(),
            adaptation.onda.drift(),
            adaptation.onda.status(),
        )
        now = "resting" if status.resting else "adapting"
        return {
            **super().diagnose(),
            **self._task_values(),
            "adaptation": "frozen" if status.frozen else now,
            "layers": len(drift.per_layer),
            "alarms": status.alarms,
            "estimator": adaptation.onda.config.estimator,
            "updates": report.updates,
            "updates_failed": report.updates_failed,
            "frames_skipped": report.skipped,
            "drift_mean": round(drift.mean, 4),
            "drift_max": round(drift.maximum, 4),
            "last_reset": report.reset_reason or "never",
            **prediction.diagnosis(adaptation.prediction),
        }

    def _task_values(self) -> dict[str, object]:
        if not (self.TASK_METHODS and self.param("task_root")):
            return {}
        held = ", ".join(name or "(checkpoint)" for name in self.tasks.names)
        return {"task": self.tasks.serving or "(checkpoint)", "tasks_held": held}

    def _now(self) -> float:
        return self.get_clock().now().nanoseconds * 1e-9


def _reason(error: Exception) -> str:
    """In one line, without all options."""
    return one_line(error).partition("; got OndaConfig")[0]


def entropy(probabilities: np.ndarray) -> float:
    """In nats."""
    certain = probabilities[probabilities > 0]
    return max(0.0, float(-(certain * np.log(certain)).sum()))
