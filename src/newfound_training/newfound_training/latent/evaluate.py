# SPDX-License-Identifier: Apache-2.0
"""`evaluate_latent`: mixtures of target domains under every method, on seen and unseen images.

No method sees a label of the target; the rows `separate` and `known` see its domains. Each run is
kept in a file as soon as it is done, so that an interrupted command goes on with the first
that has none.
"""

import logging
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.errors import ConfigError, DataError
from newfound_core.latent import LatentClassifier, clustered, from_source, used_domains
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.folding import logits_of
from newfound_core.stem_clusters import Clusters, cluster_statistics, measure_stem
from newfound_core.storage import read_json, write_bytes, write_json
from newfound_training.data import Pixels, load_pixels, open_images
from newfound_training.data.sampling import split
from newfound_training.latent.figures import draw_differences
from newfound_training.latent.options import TRAINED, EvaluateLatentOptions
from newfound_training.latent.tables import markdown, summary
from newfound_training.latent.task import (
    LatentTask,
    Start,
    Target,
    prepared,
    source_domains,
    start_from,
)
from newfound_training.running.command import Command, Run, require_same_images
from newfound_training.running.training import train
from newfound_training.source import to_device

_log = logging.getLogger(__name__)


class Cell(NamedTuple):
    """One mixture of one seed: a source model, and target images that it may see or not."""

    name: str
    start: Start
    target: Pixels
    domains: np.ndarray  # [N] of each target image, 0 to k - 1
    seen: np.ndarray  # indices that are unlabelled footage
    unseen: np.ndarray  # indices that nothing sees before it is tested
    options: EvaluateLatentOptions
    run: Run

    @property
    def domain_count(self) -> int:
        """Target domains in the mixture."""
        return int(self.domains.max()) + 1

    def images(self, indices: np.ndarray) -> Tensor:
        """Prepared target images."""
        batch = self.start.preprocessing.batch([self.target[int(i)] for i in indices])
        return to_device(batch, self.run.device)

    def footage(self, indices: np.ndarray) -> Tensor:
        """Prepared images of the part that may be seen."""
        return self.images(self.seen[indices])


def run_evaluate_latent(options: EvaluateLatentOptions, run: Run) -> dict[str, Any]:
    """The table, the figure, and one file for each run in `<out>/runs`."""
    if run.process_group.world_size > 1:
        raise ConfigError("evaluate-latent runs in one process")
    rows: list[dict[str, Any]] = []
    for seed in range(options.seed, options.seed + options.seeds):
        seeded = replace(options, seed=seed)
        alone = replace(run, seed=seed)
        start = start_from(seeded, alone.inside(f"seed{seed}"))
        target = _target_pixels(options, start, run)
        for mixture in options.mixtures:
            cell = _cell(mixture, start, target, seeded, alone)
            rows += [_measured(cell, method) for method in options.methods]
    found = summary(rows, options.methods)
    table = markdown(found)
    write_bytes(run.out / "table.md", table.encode())
    draw_differences(found, run.out / "differences.png")
    _log.info("%s", table)
    return {"runs": rows, "summary": found}


def _target_pixels(options: EvaluateLatentOptions, start: Start, run: Run) -> Pixels:
    images = open_images(options.target_data or options.data, options.layout)
    if images.class_names != start.pixels.images.class_names:
        raise DataError(f"{images.root} has other classes than {start.pixels.images.root}")
    how = start.preprocessing
    pixels = load_pixels(images, how.size, strict=options.strict, resize=how.resize,
                         limit_gb=options.cache_limit_gb)  # fmt: skip
    require_same_images(pixels.images, run)
    return pixels


def _cell(
    mixture: str, start: Start, target: Pixels, options: EvaluateLatentOptions, run: Run
) -> Cell:
    names = mixture.split("+")
    if len(set(names)) != len(names):
        raise ConfigError(f"the mixture {mixture} names a domain twice")
    chosen = [
        np.flatnonzero(target.images.domains == target.images.domain_index(n)) for n in names
    ]
    if options.images_per_domain:
        generator = np.random.default_rng([run.seed, 12])
        most = options.images_per_domain
        chosen = [generator.permutation(indices)[:most] for indices in chosen]
    pixels = target.select(np.concatenate(chosen))
    domains = np.repeat(np.arange(len(names)), [len(indices) for indices in chosen])
    kinds = pixels.images.labels * len(names) + domains  # a share of each class and domain
    seen, unseen = split(kinds, options.held_out, run.seed, pixels.images.groups)
    seen = np.random.default_rng([run.seed, 13]).permutation(seen)
    return Cell(mixture, start, pixels, domains, seen, unseen, options, run)


def _measured(cell: Cell, method: str) -> dict[str, Any]:
    """Accuracy of one method in one cell, from its file if it was measured already."""
    name = f"{cell.name}-{method}-seed{cell.run.seed}"
    path = cell.run.out / "runs" / f"{name}.json"
    if not path.exists():
        found = METHODS[method](cell) if method in METHODS else _trained(cell, method, name)
        row = {"mixture": cell.name, "method": method, "seed": cell.run.seed, **found}
        write_json(path, row)
        _log.info("%s: seen %.1f %%, unseen %.1f %%", name, 100 * row["seen"], 100 * row["unseen"])
    return read_json(path)


# Rows -----------------------------------------------------------------------------------------


@torch.no_grad()
def _accuracy(cell: Cell, model: nn.Module, known: bool = False) -> dict[str, Any]:
    """Accuracy on seen and unseen images, as the mean over the target's domains."""
    model.eval()
    classes = len(cell.target.images.class_names)
    found: dict[str, Any] = {}
    for part, indices in (("seen", cell.seen), ("unseen", cell.unseen)):
        right = []
        for chunk in np.array_split(indices, max(1, len(indices) // 50)):
            more: tuple[Tensor, ...] = ()
            if known:
                labels = torch.from_numpy(cell.domains[chunk]).to(cell.run.device)
                more = (torch.ones(len(chunk), dtype=torch.bool), labels)
            logits = logits_of(model(cell.images(chunk), *more))[:, :classes]
            right.append(logits.argmax(1).cpu().numpy() == cell.target.images.labels[chunk])
        hits = np.concatenate(right)
        each = [hits[cell.domains[indices] == d].mean() for d in range(cell.domain_count)]
        found[part], found[f"{part}_by_domain"] = float(np.mean(each)), list(map(float, each))
    return found


def _source(cell: Cell) -> dict[str, Any]:
    return _accuracy(cell, cell.start.model)


def _onda(cell: Cell) -> dict[str, Any]:
    """ONDA over the mixture, then as it is after the last frame."""
    onda = Onda(cell.start.model, OndaConfig())
    try:
        for start in range(0, len(cell.seen), 10):
            onda.replay(cell.images(cell.seen[start : start + 10]))
        return _accuracy(cell, cell.start.model)
    finally:
        onda.reset()
        onda.close()


def _clusters(cell: Cell, count: int | None = None) -> dict[str, Any]:
    """Statistics of each cluster, nothing trained."""
    clusters = _sorted(cell, cell.domain_count if count is None else count)
    model = clustered(cell.start.model, clusters, cell.footage)
    found = _accuracy(cell, model)
    found["purity"] = purity(clusters.assignment.numpy(), cell.domains[cell.seen])
    return found


def _sorted(cell: Cell, count: int) -> Clusters:
    images = cell.target.select(cell.seen)
    batches = prepared(images, cell.start.preprocessing, cell.run.device)
    statistics = measure_stem(cell.start.model.backbone, batches)
    return cluster_statistics(statistics, count, cell.run.seed)


def _separate(cell: Cell) -> dict[str, Any]:
    """Statistics of each true domain, nothing trained."""
    clusters = _sorted(cell, cell.domain_count)
    assignment = torch.from_numpy(cell.domains[cell.seen])
    model = clustered(cell.start.model, replace(clusters, assignment=assignment), cell.footage)
    return _accuracy(cell, model, known=True)


def purity(assignment: np.ndarray, domains: np.ndarray) -> float:
    """Share of images in a cluster of which their domain is the most frequent one."""
    counts = [np.bincount(domains[assignment == c]).max() for c in np.unique(assignment)]
    return float(sum(counts) / len(domains))


METHODS = {
    "source": _source,
    "onda": _onda,
    "pooled": lambda cell: _clusters(cell, 1),
    "clusters": _clusters,
    "separate": _separate,
}


def _trained(cell: Cell, method: str, name: str) -> dict[str, Any]:
    """Trained on both sides: DIAL, mDA from either start, and mDA with known target domains."""
    assert method in TRAINED
    dial = method == "dial"
    config = cell.options.latent(
        1 if dial else source_domains(cell.start.pixels, cell.options),
        1 if dial else cell.domain_count,
    )
    torch.manual_seed(cell.run.seed)  # the branch starts from random values
    model = from_source(cell.start.model, config)
    model.rejection = None
    options = cell.options
    if method in ("mda_random", "known"):
        options = replace(options, branch_start="random")
    known = method == "known"
    target = Target(cell.target.select(cell.seen), cell.domains[cell.seen] if known else None)
    run = cell.run.inside(f"training/{name}")
    task = LatentTask(model, cell.start, target, options, run)
    train(task, options, run)
    return _accuracy(cell, model, known) | ({} if dial or known else _assigned(cell, model))


@torch.no_grad()
def _assigned(cell: Cell, model: LatentClassifier) -> dict[str, Any]:
    """How the branch divides the footage."""
    batches = prepared(cell.target.select(cell.seen), cell.start.preprocessing, cell.run.device)
    columns = model.config.columns("target")
    weights = torch.cat([model(images).domain_weights[:, columns].cpu() for images in batches])
    return {
        "used_domains": used_domains(weights),
        "purity": purity(weights.argmax(1).numpy(), cell.domains[cell.seen]),
    }


COMMAND = Command(
    "evaluate-latent",
    "Compares ways to use unlabelled footage of several sites at once.",
    EvaluateLatentOptions,
    run_evaluate_latent,
    {
        "runs": "one entry for each mixture, method and seed: seen and unseen, the accuracy on "
        "target\n      images that were unlabelled footage and on those held out, as means over "
        "the target's\n      domains; seen_by_domain, unseen_by_domain; purity, the share of "
        "footage in a latent\n      domain of which its true domain is the most frequent; "
        "used_domains, their effective number",
        "summary": "for each method: means of seen and unseen, and under above_dial and "
        "above_clusters, for each\n      of the two, differences (paired: one mixture, one "
        "seed); their mean with its 95 % interval\n      by Student's t, over all pairs and over "
        "mixtures (each the mean of its seeds)",
    },
)
