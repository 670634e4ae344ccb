# SPDX-License-Identifier: Apache-2.0
"""Deltas on disk: checkpoints of method `delta`, which need the network they are a delta of.

The base is told by the digest of its contents. Any other is refused: one with the same shapes
would run, and answer nonsense.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from newfound_core.backbones import Backbone, build_backbone
from newfound_core.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from newfound_core.errors import CheckpointError, NewfoundError
from newfound_core.metadata import BackboneSpec, Metadata, Provenance
from newfound_core.preprocessing import Preprocessing
from newfound_core.task_delta.config import VARIANTS, TaskDeltaConfig
from newfound_core.task_delta.delta import TRUNK, TaskDelta, apply, extract, trunk_digest

METHOD = "delta"
INNER_METHODS = ("source", "bn")  # whose network is plain
_TASK_NAME = re.compile(r"\w[\w.-]{0,63}")  # of a folder of a task
_OPTIONS: dict[str, type] = {
    "method": str,  # of the model that the applied delta is
    "options": dict,
    "base": str,  # for people: where it was found when the task was trained
    "base_sha256": str,
    "variant": str,
    "keep_dead": bool,
}


class Base(NamedTuple):
    """A network that tasks share."""

    name: str  # as it was asked for
    backbone: BackboneSpec
    tensors: dict[str, Tensor]
    digest: str


def load_base(base: str | PathLike[str], backbone: BackboneSpec | None = None) -> Base:
    """The network of a base: a checkpoint's folder, a file of weights, or `imagenet`.

    `backbone` says which network it is, or must be; a checkpoint tells it itself.
    """
    where = str(base)
    if Path(where).is_dir():
        found = load_checkpoint(where)
        spec = found.metadata.backbone
        if found.metadata.method == METHOD:
            raise CheckpointError(f"{where} is itself a delta: the base must be a whole network")
        if backbone not in (None, spec):
            raise CheckpointError(f"{where} has the network {spec}, but {backbone} is needed")
        tensors = {k: t.float() if t.is_floating_point() else t
                   for k, t in trunk_of(found.tensors).items()}  # fmt: skip
    else:
        if where != "imagenet" and not Path(where).is_file():
            raise CheckpointError(
                f"{where} does not exist: the base must be a checkpoint's folder, a file of "
                "weights, or imagenet"
            )
        spec = backbone or BackboneSpec("efficientnet_lite0")
        tensors = build_backbone(spec.name, where, **spec.options).state_dict()
    return Base(where, spec, tensors, trunk_digest(tensors))


def is_task_name(name: str) -> bool:
    """Whether a folder of a task may be called so: one part of a path, and not hidden."""
    return bool(_TASK_NAME.fullmatch(name))


def trunk_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those of a model's tensors that are its backbone's."""
    return {k.removeprefix(TRUNK): t for k, t in tensors.items() if k.startswith(TRUNK)}


def head_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those that are not."""
    return {k: t for k, t in tensors.items() if not k.startswith(TRUNK)}


def save_delta(
    directory: str | PathLike[str],
    model: nn.Module,
    config: TaskDeltaConfig,
    base: Base,
    *,
    labels: Sequence[str],
    preprocessing: Preprocessing,
    provenance: Provenance | None = None,
    replace: bool = False,
) -> Path:
    """Write the delta of a model whose backbone `convert` prepared."""
    from newfound_core.models import describe  # it resolves deltas itself

    method, options = describe(model)
    backbone = model.backbone
    if method not in INNER_METHODS or not isinstance(backbone, Backbone):
        raise CheckpointError(
            f"a model of method {method!r} cannot be a delta: {' and '.join(INNER_METHODS)} can"
        )
    delta = extract(backbone, config, head_of(model.state_dict()))
    metadata = Metadata(
        method=METHOD,
        backbone=BackboneSpec(backbone.name, backbone.options),
        labels=tuple(labels),
        preprocessing=preprocessing,
        options={
            "method": method,
            "options": options,
            "base": base.name,
            "base_sha256": base.digest,
            "variant": config.variant,
            "keep_dead": config.keep_dead,
        },
        provenance=provenance or Provenance(),
    )
    return save_checkpoint(directory, metadata, delta.tensors(), replace=replace)


def resolve(checkpoint: Checkpoint, base: str | PathLike[str]) -> Checkpoint:
    """The ordinary checkpoint that a delta makes of its base; its digest stays the delta's."""
    options = _checked_options(checkpoint)
    where = checkpoint.directory
    if not str(base):
        raise CheckpointError(
            f"{where} is a delta and needs the network it was trained on ({options['base']}, "
            f"SHA-256 {options['base_sha256'][:12]}…): give it as `base`"
        )
    try:
        found = load_base(base, checkpoint.metadata.backbone)
    except (NewfoundError, TypeError, ValueError) as error:
        raise CheckpointError(f"the base of {where} cannot be used: {error}") from error
    if found.digest != options["base_sha256"]:
        raise CheckpointError(
            f"{where} is a delta of another network than {base}: it needs "
            f"{options['base']} with SHA-256 {options['base_sha256'][:12]}…, this one has "
            f"{found.digest[:12]}…. Give the base it was trained on, or train it on this one"
        )
    delta = TaskDelta.from_tensors(checkpoint.tensors, keep_dead=options["keep_dead"])
    try:
        _check_variant(delta, options["variant"], found)
        trunk = apply(found.tensors, delta)
    except CheckpointError as error:
        raise CheckpointError(f"{where}: {error}. Copy it again, or train it anew") from error
    metadata = replace(
        checkpoint.metadata, method=options["method"], options=dict(options["options"])
    )
    tensors = {TRUNK + name: tensor for name, tensor in trunk.items()} | delta.head
    return Checkpoint(metadata, tensors, where, checkpoint.digest)


def _check_variant(delta: TaskDelta, variant: str, base: Base) -> None:
    """A part that the variant has must be there, and no other."""
    rules = VARIANTS.get(variant)
    if rules is None:
        raise CheckpointError(f"no variant is called {variant!r}")
    normalized = any(name.endswith(".running_mean") for name in base.tensors)
    wanted = (rules.masks, rules.norm and normalized)
    if (delta.masks is not None, delta.norm is not None) != wanted:
        raise CheckpointError(f"its tensors are not those of the variant {variant}")


def _checked_options(checkpoint: Checkpoint) -> dict[str, Any]:
    options = checkpoint.metadata.options
    wrong = sorted(options.keys() ^ _OPTIONS.keys()) or sorted(
        name for name, kind in _OPTIONS.items() if not isinstance(options[name], kind)
    )
    if wrong or options["method"] not in INNER_METHODS:
        raise CheckpointError(
            f"{checkpoint.directory}: the options of the delta are not as they were written "
            f"({', '.join(wrong) or 'method'}). Copy it again, or train it anew"
        )
    return options
