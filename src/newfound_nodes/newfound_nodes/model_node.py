# SPDX-License-Identifier: Apache-2.0
"""A node around one checkpoint: loading it, its back end, the outputs all such nodes have."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from sensor_msgs.msg import Image

from newfound_core.errors import CheckpointError, NewfoundError
from newfound_core.inference import BACKENDS, Inference, InferenceConfig, build_inference
from newfound_core.model_download import fetched_model
from newfound_core.models import LoadedModel, load_model
from newfound_core.onnx_runtime import EXECUTION_PROVIDERS
from newfound_nodes import debug_images, vision_messages
from newfound_runtime.images import Frame, rgb_message
from newfound_runtime.managed_node import LoadError, Output
from newfound_runtime.parameters import Parameter
from newfound_runtime.perception_node import PerceptionNode

VISION_OUTPUT, DEBUG_OUTPUT = "vision_classification", "debug_image"


BACKEND_PARAMETERS = (
    Parameter("device", "cpu", "Where the model runs: cpu, cuda or cuda:1."),
    Parameter(
        "backend",
        "torch",
        "torch: PyTorch as it is; compile: torch.compile; onnx: ONNX Runtime.",
        choices=BACKENDS,
    ),
    Parameter(
        "execution_provider",
        "auto",
        "What computes with onnx; auto: cpu or cuda, as the device. Others need their own build "
        "of ONNX Runtime.",
        choices=EXECUTION_PROVIDERS,
    ),
    Parameter(
        "int8_images",
        "",
        "Folder of at least 20 images of what the camera will see: onnx runs as 8-bit integers, "
        "calibrated on them. Empty: single precision.",
    ),
    Parameter("channels_last", False, "Memory layout of torch and compile."),
    Parameter(
        "threads",
        0,
        "CPU threads of one pass, 0: automatic. Of the whole process with torch and compile.",
        minimum=0,
        maximum=256,
    ),
    Parameter("half_precision", False, "Mixed precision with float16; on CUDA only."),
)


def inference_config(param: Callable[[str], Any], *, adapt: bool = False) -> InferenceConfig:
    """The options of inference among a node's parameters."""
    names = {p.name for p in BACKEND_PARAMETERS} - {"device"}
    return InferenceConfig(**{name: param(name) for name in names}, adapt=adapt)


class ModelNode(PerceptionNode):
    """Loads the checkpoint in `configure`; one that cannot be used is reported in one line."""

    METHODS: ClassVar[Collection[str]]  # of checkpoints that this node can run
    COMMON_PARAMETERS: ClassVar[Sequence[Parameter]] = (
        *PerceptionNode.COMMON_PARAMETERS,
        *BACKEND_PARAMETERS,
        Parameter(
            "reject_unknown",
            True,
            "Answer with an empty label where none of the labels is more probable than each; with "
            "a checkpoint that can tell.",
            live=True,
        ),
    )

    loaded: LoadedModel
    inference: Inference

    def outputs(self) -> Mapping[str, Output]:
        """Those of the node, a debug image, and vision_msgs' message where it is installed."""
        found = {**super().outputs(), DEBUG_OUTPUT: (Image, f"~/{DEBUG_OUTPUT}", 2)}
        if vision_messages.AVAILABLE:
            kind = vision_messages.Classification
            found[VISION_OUTPUT] = (kind, f"~/{VISION_OUTPUT}", 10)
        return found

    def load(self) -> None:
        """Read the checkpoint and make it ready for the first frame."""
        try:
            folder = find_checkpoint(self.param("checkpoint"))
            self.loaded = load_model(folder, self.METHODS, self.param("device"))
            self.inference = build_inference(
                self.loaded, inference_config(self.param, adapt=self.adapts())
            )
        except NewfoundError as error:
            raise LoadError(one_line(error)) from error
        self.get_logger().info(
            f"{self.loaded.name}: {self.loaded.metadata.method}, {len(self.loaded.labels)} "
            f"labels, on {self.loaded.device} by {self.param('backend')}"
        )

    def adapts(self) -> bool:
        """Whether ONDA is to move the model's statistics."""
        return False

    def unload(self) -> None:
        """Let go of the model."""
        del self.inference, self.loaded

    def diagnose(self) -> Mapping[str, object]:
        """What is loaded and where it runs."""
        return {
            "device": self.loaded.device,
            "backend": self.param("backend"),
            "model": self.loaded.name,
            "method": self.loaded.metadata.method,
        }

    def answer(self, probabilities: np.ndarray) -> dict[str, Any]:
        """Fields of the answer, from probabilities of the labels and perhaps of "unknown"."""
        labels = self.loaded.labels
        known, unknown = probabilities[: len(labels)], float(probabilities[len(labels) :].sum())
        best = int(known.argmax())
        rejected = self.param("reject_unknown") and unknown > known[best]
        return {
            "label": "" if rejected else labels[best],
            "nearest_label": labels[best],
            "confidence": unknown if rejected else float(known[best]),
            "unknown_probability": unknown,
            "labels": labels,
            "probabilities": (known / max(known.sum(), 1e-300)).tolist(),
        }

    def publish_vision(self, header: Any, probabilities: np.ndarray) -> None:
        """The same result for those who speak vision_msgs."""
        if vision_messages.AVAILABLE and self.wanted(VISION_OUTPUT):
            labels = (*self.loaded.labels, "unknown")[: len(probabilities)]
            made = vision_messages.classification(header, labels, probabilities)
            self.publish(VISION_OUTPUT, made)

    def publish_debug(self, frame: Frame, caption: str, chart: debug_images.Chart) -> None:
        """Publish the annotated image."""
        picture = debug_images.annotate(frame.rgb, caption, chart)
        self.publish(DEBUG_OUTPUT, rgb_message(frame.header, picture))


def find_checkpoint(name: str) -> Path:
    """What is meant: a path as it is, a model that we ship, or a published one, if fetched."""
    if not name:
        raise CheckpointError("no checkpoint is given: set the parameter checkpoint to its folder")
    path = Path(name).expanduser()
    if "/" in name or path.exists():
        return path
    if (fetched := fetched_model(name)) is not None:
        return fetched
    try:
        models = Path(get_package_share_directory("newfound_bringup")) / "models"
    except PackageNotFoundError:
        raise CheckpointError(
            f"{name} does not exist, and newfound_bringup, which brings models, is not installed"
        ) from None
    if not (models / name).is_dir():
        known = ", ".join(sorted(p.name for p in models.glob("*") if p.is_dir())) or "none"
        raise CheckpointError(f"{name} is no folder here, nor a shipped model ({known})")
    # A workspace built with --symlink-install links every file; a memory takes no links.
    return (models / name / "checkpoint.json").resolve().parent


def probabilities_of(logits: Any) -> np.ndarray:
    """Softmax in double precision, where a sum of one stays one."""
    found = logits.detach().cpu().double().softmax(-1).numpy()
    return found / found.sum()


def one_line(error: Exception) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(error).split())
