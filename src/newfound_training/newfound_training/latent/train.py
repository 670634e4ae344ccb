# SPDX-License-Identifier: Apache-2.0
"""`train_latent`: labelled images and a heap of unlabelled footage in, one checkpoint out."""

import logging
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.errors import ConfigError
from newfound_core.latent import (
    LatentClassifier,
    as_plain,
    clustered,
    from_source,
    used_domains,
)
from newfound_core.models import save_model, write_model_card
from newfound_core.onda.watch import confidence
from newfound_core.stem_clusters import Clusters, cluster_statistics, measure_stem
from newfound_training.latent.figures import draw_domains
from newfound_training.latent.footage import Footage, load_footage
from newfound_training.latent.options import LatentOptions
from newfound_training.latent.task import (
    LatentTask,
    Start,
    Target,
    prepared,
    source_domains,
    start_from,
)
from newfound_training.running.command import Command, Run
from newfound_training.running.training import train
from newfound_training.source import to_device

_log = logging.getLogger(__name__)

FEW = 20  # frames behind a domain's statistics, below which a warning is given


class Found(NamedTuple):
    """What the footage shows."""

    statistics: Tensor  # [N, D] behind the stem
    clusters: Clusters


def run_train_latent(options: LatentOptions, run: Run) -> dict[str, Any]:
    """Find the domains of the footage, and write the checkpoint into `<out>/checkpoint`."""
    if run.process_group.world_size > 1:
        raise ConfigError("train-latent runs in one process: start it without torchrun")
    start = start_from(options, run)
    footage = load_footage(
        options.footage,
        options.frames,
        start.preprocessing,
        run,
        topic=options.image_topic,
        strict=options.strict,
    )
    found = _explore(start, footage, options, run)
    if options.method == "mda":
        model = _train(start, footage, len(found.clusters.centres), options, run)
    else:
        model = clustered(start.model, found.clusters, _images_of(start, footage, run))
    weights, usual = _measure(model, start, footage, run)
    model.source_confidence = usual
    facts = _facts(weights, found)
    _warn(facts)
    names = domain_names(model)
    draw_domains(
        footage.frames,  # type: ignore[arg-type]
        weights.numpy(),
        found.statistics.numpy(),
        names,
        run.out / "domains.png",
    )
    _save(model, start, facts, run)
    return {
        "checkpoint": "checkpoint",
        "method": "mda" if model.domains > 1 else "source",
        "classes": list(start.pixels.images.class_names),
        "labelled_images": len(start.pixels),
        "corrupt_images": list(start.pixels.corrupt),
        "footage_frames": footage.found,
        "frames_used": len(footage.frames),
        "frames_damaged": footage.damaged,
        "unreadable_footage": footage.unreadable,
        **facts,
    }


def domain_names(model: LatentClassifier) -> list[str]:
    """Names of the latent domains, by number."""
    return [f"target_{number}" for number in range(model.domains)]


def _images_of(start: Start, footage: Footage, run: Run) -> Any:
    def images(indices: np.ndarray) -> Tensor:
        batch = start.preprocessing.batch([np.asarray(footage.frames[i]) for i in indices])
        return to_device(batch, run.device)

    return images


def _explore(start: Start, footage: Footage, options: LatentOptions, run: Run) -> Found:
    """Sort the frames by their stem statistics."""
    batches = prepared(footage.frames, start.preprocessing, run.device)  # type: ignore[arg-type]
    statistics = measure_stem(start.model.backbone, batches)
    clusters = cluster_statistics(statistics, options.target_domains, run.seed)
    return Found(statistics, clusters)


def _train(
    start: Start, footage: Footage, count: int, options: LatentOptions, run: Run
) -> LatentClassifier:
    torch.manual_seed(run.seed)  # the branch starts from random values
    model = from_source(start.model, options.latent(source_domains(start.pixels, options), count))
    if model.rejection is not None:
        _log.warning("the rejection of unknown things does not fit a network that is trained "
                     "further: it is left out; `calibrate` makes a new one")  # fmt: skip
        model.rejection = None
    target = Target(footage.frames)  # type: ignore[arg-type]
    task = LatentTask(model, start, target, options, run)
    train(task, options, run)
    return model.for_target()


@torch.no_grad()
def _measure(
    model: LatentClassifier, start: Start, footage: Footage, run: Run
) -> tuple[Tensor, float]:
    """Domain weights of all frames, and the mean probability of the answers."""
    model.eval()
    weights, sure = [], []
    for images in prepared(footage.frames, start.preprocessing, run.device):  # type: ignore[arg-type]
        output = model(images)
        weights.append(output.domain_weights.cpu())
        sure.append(confidence(model, output.logits)[0].cpu())
    return torch.cat(weights), float(torch.cat(sure).mean())


def _facts(weights: Tensor, found: Found) -> dict[str, Any]:
    return {
        "target_domains": weights.shape[1],
        "mean_weights": [round(float(w), 4) for w in weights.mean(0)],
        "used_domains": round(used_domains(weights), 3),
        "cluster_sizes": found.clusters.sizes,
        "frames_by_domain": torch.bincount(weights.argmax(1), minlength=weights.shape[1]).tolist(),
    }


def _warn(facts: dict[str, Any]) -> None:
    """Name dead domains, and those that few frames stand behind."""
    count = facts["target_domains"]
    if facts["used_domains"] < count - 0.5:
        _log.warning(
            "only %.1f of %d latent domains are used: ask for fewer (--target-domains)",
            facts["used_domains"],
            count,
        )
    for number, frames in enumerate(facts["frames_by_domain"]):
        if frames < FEW:
            _log.warning(
                "target_%d has %d frames only: its statistics are uncertain", number, frames
            )


def _save(
    model: LatentClassifier,
    start: Start,
    facts: dict[str, Any],
    run: Run,
) -> None:
    """Write the checkpoint; a model with one domain is a plain network of method source."""
    whole: nn.Module = model if model.domains > 1 else as_plain(model)
    checkpoint = save_model(
        run.out / "checkpoint",
        whole,
        start.pixels.images.class_names,
        start.preprocessing,
        domains=domain_names(model) if model.domains > 1 else (),
        provenance=run.provenance(facts),
        replace=True,
    )
    by_centres = model.config.assignment == "centres"
    how = "clusters with their own statistics" if by_centres else "trained (mDA)"
    write_model_card(
        checkpoint,
        f"Classifier with {model.domains} latent domains",
        f"Domains found in unlabelled footage, {how}: each image is normalised by the statistics "
        "of the domain that it looks like. ONDA can follow the stream from there.",
        {"labelled images": len(start.pixels)},
    )
    _log.info("checkpoint written to %s", checkpoint)


COMMAND = Command(
    "train-latent",
    "Adapts a classifier to unlabelled footage of several sites, sorted by itself.",
    LatentOptions,
    run_train_latent,
    {
        "checkpoint": "the model, a folder relative to result.json",
        "method": "of that checkpoint: mda, or source if the footage is one domain",
        "classes": "names, in the order of the model's outputs",
        "labelled_images, corrupt_images": "how many there are, and names of those left out",
        "footage_frames, frames_used, frames_damaged": "frames in all, those that were used, and "
        "those\n      taken that could not be decoded",
        "unreadable_footage": "videos and bags left out, a sentence each",
        "target_domains": "latent domains of the footage",
        "mean_weights": "share of the frames in each latent domain, 0 to 1",
        "used_domains": "effective number of latent domains, exp of the entropy of mean_weights",
        "cluster_sizes": "frames in each cluster of stem statistics",
        "frames_by_domain": "frames that belong to each latent domain most",
    },
)
