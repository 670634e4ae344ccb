# SPDX-License-Identifier: Apache-2.0
"""Models from and to checkpoints: `load_model(directory)`, `save_model(directory, model, …)`.

A model card says what a person who finds a checkpoint wants to know, as its README.md.
`python -m newfound_core.models fetch NAME` downloads what others publish (`model_download`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.backbones import Backbone, build_backbone
from newfound_core.checkpoint import (
    Checkpoint,
    check_method,
    load_checkpoint,
    save_checkpoint,
)
from newfound_core.classifier import Classifier, check_confidence
from newfound_core.errors import CheckpointError, ConfigError, NewfoundError
from newfound_core.latent import LatentClassifier, LatentConfig
from newfound_core.metadata import BackboneSpec, Metadata, Provenance
from newfound_core.naming import NamingConfig, NamingModel
from newfound_core.open_world.heads import HEADS
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.places import (
    BsfClassifier,
    BsfConfig,
    PlaceClassifier,
    WbnClassifier,
    WbnConfig,
)
from newfound_core.predictive.model import AdaGraphClassifier
from newfound_core.preprocessing import Preprocessing
from newfound_core.storage import write_bytes
from newfound_core.tensors import load_into


@dataclass(frozen=True)
class LoadedModel:
    """A model ready for use, with what its checkpoint says about it."""

    model: nn.Module
    metadata: Metadata
    directory: Path
    device: torch.device
    digest: str  # SHA-256 of the tensors' file

    @property
    def name(self) -> str:
        """The name of its folder and the beginning of its checksum, for messages and logs."""
        return f"{self.directory.resolve().name}@{self.digest[:8]}"

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its classes, in the order of its outputs."""
        return self.metadata.labels

    def prepare(self, images: Sequence[np.ndarray]) -> Tensor:
        """Images, uint8 [H, W, 3] RGB, as the model's input on the model's device."""
        return self.metadata.preprocessing.batch(images).to(self.device)


def load_model(
    directory: str | PathLike[str],
    method: str | Collection[str] | None = None,
    device: str | torch.device = "cpu",
    base: str | PathLike[str] = "",
) -> LoadedModel:
    """Read a checkpoint and build its model for evaluation; strict at every step.

    `base` is the network that a checkpoint of method `delta` belongs to, a checkpoint's folder, a
    file of weights or `imagenet`; others do not need it. `method` is that of the applied delta.
    """
    place = check_device(device)
    checkpoint = load_resolved(directory, method, base)
    model = model_of(checkpoint).to(place)
    return LoadedModel(model, checkpoint.metadata, checkpoint.directory, place, checkpoint.digest)


def load_resolved(
    directory: str | PathLike[str],
    method: str | Collection[str] | None = None,
    base: str | PathLike[str] = "",
) -> Checkpoint:
    """Read a checkpoint; one that is a delta is applied to its base."""
    checkpoint = load_checkpoint(directory)
    if checkpoint.metadata.method == "delta":
        from newfound_core.task_delta.checkpoint import resolve

        checkpoint = resolve(checkpoint, base)
    check_method(checkpoint, method)
    return checkpoint


def model_of(checkpoint: Checkpoint) -> nn.Module:
    """The model of a checkpoint that was read, in evaluation mode."""
    try:
        model = build_model(checkpoint.metadata)
    except (NewfoundError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{checkpoint.directory}: no model can be built from its metadata: {error}"
        ) from error
    # Half precision is for the disk only.
    tensors = {k: t.float() if t.dtype == torch.float16 else t
               for k, t in checkpoint.tensors.items()}  # fmt: skip
    load_into(model, tensors, str(checkpoint.directory))
    if isinstance(model, AdaGraphClassifier):
        try:
            model.check_graph()
        except NewfoundError as error:
            raise CheckpointError(f"{checkpoint.directory}: {error}") from error
    return model.eval()


def build_model(metadata: Metadata) -> nn.Module:
    """The model that metadata describe, with random weights."""
    if "weights" in metadata.backbone.options:
        raise CheckpointError(
            "the options of its backbone name weights, but a checkpoint holds all of its own: "
            "nothing else is opened for it"
        )
    backbone = build_backbone(metadata.backbone.name, **metadata.backbone.options)
    return BUILDERS[metadata.method](backbone, metadata)


def save_model(
    directory: str | PathLike[str],
    model: nn.Module,
    labels: Sequence[str],
    preprocessing: Preprocessing,
    *,
    domains: Sequence[str] = (),
    thresholds: Mapping[str, float] | None = None,
    provenance: Provenance | None = None,
    write_memory: Callable[[Path], None] | None = None,
    half: bool = False,
    replace: bool = False,
) -> Path:
    """Write a model as a checkpoint; method and options are read off the model itself.

    With `half` the tensors are stored in half precision; they are read back in float32.
    """
    method, options = describe(model)
    backbone = model.backbone
    if not isinstance(backbone, Backbone) or not backbone.name:
        raise CheckpointError(
            "only a model around a backbone made by build_backbone can be saved: its name is "
            "what the network is built from again"
        )
    metadata = Metadata(
        method=method,
        backbone=BackboneSpec(backbone.name, backbone.options),
        labels=tuple(labels),
        preprocessing=preprocessing,
        domains=tuple(domains),
        thresholds=dict(thresholds or {}),
        options=options,
        provenance=provenance or Provenance(),
    )
    _check_domains(metadata, getattr(model, "domains", 0))
    tensors = model.state_dict()
    if half:
        tensors = {k: v.half() if v.dtype == torch.float32 else v for k, v in tensors.items()}
    return save_checkpoint(
        directory, metadata, tensors, write_memory=write_memory, replace=replace
    )


def describe(model: nn.Module) -> tuple[str, dict[str, Any]]:
    """The method of a model and its options, from which `build_model` makes it again."""
    if isinstance(model, OpenWorldModel | LatentClassifier | NamingModel):
        named = "cumix" if isinstance(model, NamingModel) else "mda"
        return model.head.name if isinstance(model, OpenWorldModel) else named, model.options()
    rejection = getattr(model, "rejection", None)
    more = {"rejection": rejection.options()} if rejection is not None else {}
    if isinstance(model, PlaceClassifier) and model.source_confidence is not None:
        more["source_confidence"] = model.source_confidence
    if isinstance(model, WbnClassifier):
        return "wbn", asdict(model.config) | more
    if isinstance(model, BsfClassifier):
        return "bsf", asdict(model.config) | more
    if isinstance(model, PlaceClassifier):
        return "bn", more
    if isinstance(model, Classifier):
        names = ("output_norm", "adaptive_layers", "source_confidence")
        more |= {name: getattr(model, name) for name in names}
        graph = model.options() if isinstance(model, AdaGraphClassifier) else {}
        return "adagraph" if graph else "source", graph | more
    from newfound_core.detection.region_network import RegionNetwork
    from newfound_core.segmentation.network import SegmentationNetwork

    if isinstance(model, RegionNetwork | SegmentationNetwork):
        return "regions" if isinstance(model, RegionNetwork) else "segmentation", model.options()
    raise CheckpointError(f"{type(model).__name__} is not a model that checkpoints know")


def check_device(device: str | torch.device) -> torch.device:
    """The device, if this machine has it: a robot must not fall back to its CPU in silence."""
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"the device {str(device)!r} cannot be used here: {reason}") from error
    return place


def _source(backbone: Backbone, metadata: Metadata) -> nn.Module:
    return Classifier(backbone, len(metadata.labels), **metadata.options)


def _latent(backbone: Backbone, metadata: Metadata) -> nn.Module:
    names = ("output_norm", "rejection", "source_confidence")
    of_model = {n: metadata.options[n] for n in names if n in metadata.options}
    config = LatentConfig(**{n: v for n, v in metadata.options.items() if n not in names})
    if config.domains != len(metadata.domains):
        raise ConfigError(f"{config.domains} domains have {len(metadata.domains)} names")
    return LatentClassifier(backbone, len(metadata.labels), config, **of_model)


def _adagraph(backbone: Backbone, metadata: Metadata) -> nn.Module:
    return AdaGraphClassifier(backbone, len(metadata.labels), **metadata.options)


def _places(backbone: Backbone, metadata: Metadata) -> nn.Module:
    options = dict(metadata.options)
    rejection, confidence = options.pop("rejection", None), options.pop("source_confidence", None)
    places, domains = len(metadata.labels), len(metadata.domains)
    model: PlaceClassifier
    if metadata.method == "wbn":
        model = WbnClassifier(backbone, places, domains, WbnConfig(**options))
    elif metadata.method == "bsf":
        model = BsfClassifier(backbone, places, domains, BsfConfig(**options))
    else:
        model = PlaceClassifier(backbone, places, **options)
    model.add_rejection(rejection)
    model.source_confidence = check_confidence(confidence)
    return model


def _open_world(backbone: Backbone, metadata: Metadata) -> nn.Module:
    model = OpenWorldModel.from_options(backbone, metadata.options)
    if (model.head.name, tuple(model.labels)) != (metadata.method, metadata.labels):
        raise CheckpointError(
            f"the head's options are of method {model.head.name!r} with {len(model.labels)} "
            f"labels, but the checkpoint is of {metadata.method!r} with {len(metadata.labels)}, "
            "or the labels differ. It was probably edited by hand; export it again."
        )
    return model


def _regions(backbone: Backbone, metadata: Metadata) -> nn.Module:
    # Imported here because torchvision takes seconds, and only this method needs it.
    from newfound_core.detection.region_network import RegionConfig, RegionNetwork

    return RegionNetwork(backbone, RegionConfig(**metadata.options))


def _segmentation(backbone: Backbone, metadata: Metadata) -> nn.Module:
    from newfound_core.segmentation.label_image import check_labels
    from newfound_core.segmentation.network import SegmentationConfig, SegmentationNetwork

    check_labels(metadata.labels)
    config = SegmentationConfig(**metadata.options)
    return SegmentationNetwork(backbone, len(metadata.labels), config)


def _names(backbone: Backbone, metadata: Metadata) -> nn.Module:
    options = dict(metadata.options)
    vocabulary, width = options.pop("vocabulary"), options.pop("width")
    return NamingModel(backbone, len(metadata.labels), vocabulary, width, NamingConfig(**options))


def _delta(backbone: Backbone, metadata: Metadata) -> nn.Module:
    raise CheckpointError(
        "it is a delta, which is no model without its base: load_model(directory, base=…)"
    )


def _check_domains(metadata: Metadata, count: int) -> None:
    if len(metadata.domains) != count:
        raise CheckpointError(
            f"the model has {count} domains, but {len(metadata.domains)} are named: give one "
            "name for each"
        )


BUILDERS: dict[str, Callable[[Backbone, Metadata], nn.Module]] = {
    "source": _source,
    "adagraph": _adagraph,
    **dict.fromkeys(("bn", "wbn", "bsf"), _places),
    "mda": _latent,
    **dict.fromkeys(HEADS, _open_world),
    "segmentation": _segmentation,
    "regions": _regions,
    "cumix": _names,
    "delta": _delta,
}


CARD_NAME = "README.md"


def write_model_card(checkpoint: Path, title: str, about: str, facts: Mapping[str, Any]) -> None:
    """Write the card into a checkpoint that is on disk; most of it is read from there."""
    metadata = load_checkpoint(checkpoint).metadata
    made = metadata.provenance
    size = metadata.preprocessing.size
    lines = [
        f"# {title}",
        "",
        about,
        "",
        f"- Method: `{metadata.method}` on `{metadata.backbone.name}`, images of {size} x {size}",
        f"- Classes ({len(metadata.labels)}): {', '.join(metadata.labels)}",
        f"- Data: {made.data}",
        f"- Made on {made.date} with seed {made.seed} by",
        "",
        f"      {made.command}",
        "",
        "| measured | value |",
        "|---|---|",
        *(f"| {name} | {_number(value)} |" for name, value in {**made.metrics, **facts}.items()),
        "",
        "Load it with `newfound_core.models.load_model(directory)`; the preprocessing is part of "
        "the checkpoint.",
        "",
    ]
    write_bytes(checkpoint / CARD_NAME, "\n".join(lines).encode())


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    from newfound_core.model_download import main

    raise SystemExit(main())
