# SPDX-License-Identifier: Apache-2.0
"""A node around one checkpoint: loading it, its back end, the outputs all such nodes have."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from newfound_core.errors import NewfoundError
from newfound_core.inference import BACKENDS, Inference, InferenceConfig, build_inference
from newfound_core.models import LoadedModel, load_model
from newfound_core.onnx_runtime import EXECUTION_PROVIDERS
from newfound_nodes import debug_images, vision_messages
from newfound_runtime.images import Frame
from newfound_runtime.managed_node import LoadError, Output
from newfound_runtime.parameters import Parameter
from newfound_runtime.perception_node import DEBUG_OUTPUTS, PerceptionNode
from newfound_runtime.shipped_models import find_checkpoint

VISION_OUTPUT = "vision_classification"


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
            "base",
            "",
            "Network that a checkpoint of method delta belongs to: a checkpoint, a shipped one's "
            "name, a file of weights, or imagenet.",
        ),
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
        found = {**super().outputs(), **DEBUG_OUTPUTS}
        if vision_messages.AVAILABLE:
            kind = vision_messages.Classification
            found[VISION_OUTPUT] = (kind, f"~/{VISION_OUTPUT}", 10)
        return found

    def load(self) -> None:
        """Read the checkpoint and make it ready for the first frame."""
        try:
            folder = find_checkpoint(self.param("checkpoint"))
            self.loaded, self.inference = self.build(folder, self.METHODS)
        except NewfoundError as error:
            raise LoadError(one_line(error)) from error

    def build(self, folder: Path, methods: Collection[str]) -> tuple[LoadedModel, Inference]:
        """A checkpoint of one of these methods, ready for a frame; raises a NewfoundError."""
        base = find_base(self.param("base"))
        loaded = load_model(folder, methods, self.param("device"), base)
        config = inference_config(self.param, adapt=self.adapts())
        inference = build_inference(loaded, config)
        self.get_logger().info(
            f"{loaded.name}: {loaded.metadata.method}, {len(loaded.labels)} labels, on "
            f"{loaded.device} by {self.param('backend')}"
        )
        return loaded, inference

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
        self.publish_picture(frame.header, debug_images.annotate(frame.rgb, caption, chart))


def find_base(name: str) -> str:
    """The network that deltas belong to, as `load_base` takes it; empty: none."""
    return name if name in ("", "imagenet") else str(find_checkpoint(name))


def probabilities_of(logits: Any) -> np.ndarray:
    """Softmax in double precision, where a sum of one stays one."""
    found = logits.detach().cpu().double().softmax(-1).numpy()
    return found / found.sum()


def one_line(error: Exception) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(error).split())
