# SPDX-License-Identifier: Apache-2.0
"""`evaluate_names`: unseen classes in unseen domains, or known classes in unseen domains."""

import copy
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from newfound_core.classifier import ImageNetClassifier, imagenet_classifier, imagenet_labels
from newfound_core.errors import ConfigError
from newfound_core.frozen_features import split_frozen
from newfound_core.naming import (
    MixingConfig,
    NameEncoder,
    center,
    plain_name,
    read_aliases,
    read_word_vectors,
    ridge_projection,
    span_shares,
)
from newfound_core.preprocessing import default_preprocessing
from newfound_core.storage import read_json, write_bytes, write_json
from newfound_training.data import load_pixels, open_images
from newfound_training.data.renderings import render
from newfound_training.naming import cells
from newfound_training.naming.imagenet import class_names
from newfound_training.places.data import evenly_chosen
from newfound_training.places.tables import paired_difference
from newfound_training.running.command import Command, Run, require_same_images
from newfound_training.running.options import CommonOptions, option

_log = logging.getLogger(__name__)
FEWEST_SEEN = 3  # so that two are left where a third plays unseen classes
Embed = Callable[[np.ndarray], np.ndarray]  # rows of the maps to vectors among the names
Method = Literal["cross_entropy", "mixup", "feature_mix", "cumix", "conse", "ridge"]
TRAINED = ("cross_entropy", "mixup", "feature_mix", "cumix")
TITLES = {
    "cross_entropy": "cross entropy (AGG)",
    "mixup": "+ mixup of features",
    "feature_mix": "+ features across domains",
    "cumix": "CuMix (features, images, curriculum)",
    "conse": "ConSE over all classes, nothing trained",
    "ridge": "ridge from ImageNet's rows, nothing trained",
}


@dataclass(frozen=True)
class EvaluateOptions(CommonOptions):
    """Train on seen classes in all domains but one; ask for unseen classes in that one."""

    setting: Literal["zero_shot", "domains"] = option(
        "zero_shot", "zero_shot: unseen classes in an unseen domain; domains: the same classes"
    )
    words: str = option("", "word vectors of the class names; needed for zero_shot")
    aliases: str = option("", "YAML file: what class names mean in other words")
    methods: tuple[Method, ...] = option(
        ("cross_entropy", "mixup", "cumix", "conse", "ridge"), "rows of the table"
    )
    renderings: tuple[str, ...] = option(
        (), "photograph, sketch, cartoon, negative, painting: the domains, made of photographs"
    )
    targets: tuple[str, ...] = option((), "domains to leave out, one at a time; all if none")
    seen: tuple[str, ...] = option((), "seen classes; none: drawn anew for every seed")
    unseen_share: float = option(0.3, "of the classes, where they are drawn")
    imagenet_seen: bool = option(False, "never draw an unseen class that ImageNet has a name for")
    generalised: bool = option(True, "also seen and unseen classes together: trains twice")
    runs: int = option(3, "seeds of every target")
    images_per_class: int = option(0, "in each domain; 0: all")
    image_size: int = option(96, "pixels")
    frozen_stages: int = option(6, "stem and stages whose weights stay; 0: the network trains")
    epochs: int = option(8, "of training")
    steps: int = option(25, "in an epoch")
    batch_size: int = option(48, "images per step, equally many of every source domain")
    lr: float = option(1e-3, "learning rate of pretrained layers")
    new_lr: float = option(1e-2, "learning rate of layers that start from random values")
    momentum: float = option(0.9, "of stochastic gradient descent")
    weight_decay: float = option(5e-5, "pulls weights towards zero")
    feature_mix: float = option(1.0, "weight of mixed features, eta_F")
    image_mix: float = option(0.1, "weight of mixed images, eta_I; CuMix only")
    strength: float = option(1.0, "beta_max of the mixing")
    warm_up: int = option(2, "epochs of the curriculum, N")

    def __post_init__(self) -> None:
        if self.setting == "domains" and set(self.methods) - set(TRAINED):
            raise ConfigError("conse and ridge know no domains: leave them out of --methods")
        if not 0 < self.unseen_share < 1 or self.runs < 1 or self.epochs < 1 or self.steps < 1:
            raise ConfigError("unseen_share must be in (0, 1); runs, epochs and steps 1 or more")

    def mixing(self, method: str) -> MixingConfig:
        """What a row of the table mixes."""
        if method == "cross_entropy":
            return MixingConfig(0.0, 0.0)
        if method == "mixup":
            return MixingConfig(self.feature_mix, 0.0, self.strength, 0, across_domains=False)
        if method == "feature_mix":
            return MixingConfig(self.feature_mix, 0.0, self.strength, 0)
        return MixingConfig(self.feature_mix, self.image_mix, self.strength, self.warm_up)


class Cell(NamedTuple):
    """One run."""

    method: str
    target: str
    seed: int


class Bench:
    """What all runs share: images behind the frozen stages, the network, the names."""

    def __init__(self, options: EvaluateOptions, run: Run) -> None:
        self.options = options
        images = open_images(options.data, options.layout)
        if options.renderings:
            images = render(images, options.renderings)
        if options.images_per_class:
            images = images.select(evenly_chosen(images, options.images_per_class))
        require_same_images(images, run)
        pixels = load_pixels(
            images, options.image_size, strict=options.strict, limit_gb=options.cache_limit_gb
        )
        self.classes, self.domains = pixels.images.class_names, pixels.images.domain_names
        self.network: ImageNetClassifier = imagenet_classifier()
        prepare = default_preprocessing("efficientnet_lite0", options.image_size)
        frozen, self.tail = split_frozen(self.network.backbone, options.frozen_stages)
        self.maps = cells.compute_maps(frozen, pixels, prepare)
        self.vectors, self.imagenet_vectors = self._vectors()

    def _vectors(self) -> tuple[np.ndarray, np.ndarray]:
        if self.options.setting == "domains":
            return np.zeros((0, 1)), np.zeros((0, 1))
        aliases = read_aliases(Path(self.options.aliases)) if self.options.aliases else {}
        encoder = NameEncoder(read_word_vectors(self.options.words), aliases)
        own, imagenet = encoder.encode(self.classes), encoder.encode(class_names())
        mean = imagenet.vectors.mean(axis=0)
        return center(own.vectors, mean), center(imagenet.vectors, mean)

    def seen(self, seed: int) -> np.ndarray:
        """Numbers of the seen classes."""
        options, count = self.options, len(self.classes)
        if options.setting == "domains":
            return np.arange(count)
        if options.seen:
            unknown = set(options.seen) - set(self.classes)
            if unknown:
                raise ConfigError(f"there are no classes {sorted(unknown)} in {options.data}")
            if len(set(options.seen)) == count:
                raise ConfigError("--seen names all classes: none is left to be asked for")
            return np.array([i for i, c in enumerate(self.classes) if c in options.seen])
        wanted = max(1, round(options.unseen_share * count))
        drawn = np.random.default_rng([seed, 7]).permutation(count)
        if options.imagenet_seen:
            known = {plain_name(label) for label in imagenet_labels()}
            drawn = drawn[[plain_name(self.classes[i]) not in known for i in drawn]]
        if len(drawn) < wanted:
            raise ConfigError(f"{wanted} unseen classes are asked for, but ImageNet has no name "
                              f"for {len(drawn)} only: lower --unseen-share")  # fmt: skip
        return np.setdiff1d(np.arange(count), drawn[:wanted])

    def run(self, cell: Cell) -> dict[str, Any]:
        """Train if the method trains, and measure."""
        torch.manual_seed(cell.seed)
        seen = self.seen(cell.seed)
        target = self.domains.index(cell.target)
        if self.options.setting == "domains":
            return cell._asdict() | self._domains(cell, target)
        unseen = np.setdiff1d(np.arange(len(self.classes)), seen)
        embed, facts = self._embedding(cell, seen, target)
        asked = {}
        for name, classes, inside in (
            ("unseen_domain", unseen, self.maps.domains == target),
            ("known_domains", unseen, self.maps.domains != target),
        ):
            scores, truth = self._scores(embed, classes, inside)
            asked[name] = cells.per_class_accuracy(scores.argmax(axis=1), truth)
        if self.options.generalised and len(seen) < FEWEST_SEEN:
            _log.warning("%d seen classes are too few for the generalised setting: at least %d",
                         len(seen), FEWEST_SEEN)  # fmt: skip
        elif self.options.generalised:
            asked["generalised"], asked["delta"] = self._generalised(cell, embed, seen, unseen)
        shares = span_shares(self.vectors[unseen], self.vectors[seen])
        return cell._asdict() | asked | facts | {"span_share": float(shares.mean())}

    def _generalised(
        self, cell: Cell, embed: Embed, seen: np.ndarray, unseen: np.ndarray
    ) -> tuple[float, float]:
        """Calibrated stacking; delta is chosen on source domains by a model that was trained
        without a third of the seen classes, which play the unseen ones.
        """
        target = self.domains.index(cell.target)
        played = seen[::3]
        rest = np.setdiff1d(seen, played)
        source = self.maps.domains != target
        played_embed, _ = self._embedding(cell, rest, target)
        scores, truth = self._scores(played_embed, np.concatenate([rest, played]), source)
        best = max(cells.DELTAS, key=lambda d: cells.generalised(scores, truth, len(rest), d))
        scores, truth = self._scores(embed, np.concatenate([seen, unseen]), ~source)
        return cells.generalised(scores, truth, len(seen), float(best)), float(best)

    def _scores(
        self, embed: Embed, classes: np.ndarray, inside: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores of classes for their images in some domains, and the right columns."""
        rows = np.flatnonzero(np.isin(self.maps.labels, classes) & inside)
        number = {int(c): i for i, c in enumerate(classes)}
        truth = np.array([number[int(c)] for c in self.maps.labels[rows]])
        return embed(rows) @ self.vectors[classes].T, truth

    def _train(self, cell: Cell, head: nn.Module, seen: np.ndarray, target: int) -> Any:
        options = self.options
        tail = copy.deepcopy(self.tail)
        sources = [d for d in range(len(self.domains)) if d != target]
        members = cells.source_members(self.maps, seen.tolist(), sources)
        schedule = cells.Schedule(
            options.epochs, options.steps, options.batch_size, options.lr, options.new_lr,
            options.momentum, options.weight_decay,
        )  # fmt: skip
        numbers = {int(c): i for i, c in enumerate(seen)}
        mixing = options.mixing(cell.method)
        share = cells.train_cell(
            tail,
            head,
            self.maps,
            members,
            number_of=numbers,
            schedule=schedule,
            mixing=mixing,
            seed=cell.seed,
        )
        return tail, share

    def _embedding(
        self, cell: Cell, seen: np.ndarray, target: int
    ) -> tuple[Embed, dict[str, Any]]:
        """A function of rows, and facts about the training."""
        if cell.method in TRAINED:
            dim = self.network.backbone.feature_dim
            head = cells.ProjectedClasses(dim, self.vectors[seen], 0.02)
            tail, share = self._train(cell, head, seen, target)

            def trained(rows: np.ndarray) -> np.ndarray:
                features = cells.features_of(tail, self.maps, rows)
                return head.projection(features).detach().double().numpy()

            return trained, {"mixed_share": share}
        table = self._conse if cell.method == "conse" else self._ridge
        return (lambda rows: table[rows]), {}

    @cached_property
    def _features(self) -> Tensor:
        """Of the network as it is, which ConSE and ridge regression use."""
        return cells.features_of(self.tail, self.maps, np.arange(len(self.maps.labels)))

    @cached_property
    def _conse(self) -> np.ndarray:
        # Of all classes: on CIFAR's renderings 1.7 points above the ten most probable ones.
        logits = self.network.classifier(self._features).detach().double()
        return logits.softmax(dim=1).numpy() @ self.imagenet_vectors

    @cached_property
    def _ridge(self) -> np.ndarray:
        rows = self.network.classifier.weight.detach().double().numpy()
        rows = rows - rows.mean(axis=0)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        weight, bias = ridge_projection(rows, self.imagenet_vectors, 1.0)
        return self._features.double().numpy() @ weight.T + bias

    def _domains(self, cell: Cell, target: int) -> dict[str, Any]:
        head = nn.Linear(self.network.backbone.feature_dim, len(self.classes))
        tail, share = self._train(cell, head, self.seen(cell.seed), target)
        rows = np.flatnonzero(self.maps.domains == target)
        scores = head(cells.features_of(tail, self.maps, rows)).detach().numpy()
        right = scores.argmax(axis=1) == self.maps.labels[rows]
        return {"unseen_domain": float(right.mean()), "mixed_share": share}


def run_evaluate_names(options: EvaluateOptions, run: Run) -> dict[str, Any]:
    """Run every cell that is missing, and write the table."""
    if options.setting == "zero_shot" and not options.words:
        raise ConfigError("the setting zero_shot needs --words")
    bench = Bench(options, run)
    targets = options.targets or tuple(bench.domains)
    if len(bench.domains) < 2 or set(targets) - set(bench.domains):
        raise ConfigError(f"--targets must be among the domains {', '.join(bench.domains)}, of "
                          "which there must be two")  # fmt: skip
    todo = [Cell(*c) for c in itertools.product(options.methods, targets, range(options.runs))]
    todo.sort(key=lambda c: c.seed)  # all rows of one seed first
    rows = list(_rows(bench, todo, run))
    found = summary(rows, options.methods)
    write_bytes(run.out / "table.md", table(found).encode())
    return {"table": "table.md", "rows": rows, "summary": found}


def _rows(bench: Bench, todo: Sequence[Cell], run: Run) -> Iterator[dict[str, Any]]:
    for cell in tqdm(todo, "runs"):
        path = run.out / "cells" / f"{cell.method}-{cell.target}-{run.seed + cell.seed}.json"
        if not path.exists():
            write_json(path, bench.run(cell._replace(seed=run.seed + cell.seed)))
        yield read_json(path)


def summary(rows: Sequence[dict[str, Any]], methods: Sequence[str]) -> dict[str, Any]:
    """Means, and differences to cross entropy paired by target and seed."""
    found = {(r["method"], r["target"], r["seed"]): r for r in rows}
    keys = sorted({(r["target"], r["seed"]) for r in rows})
    result: dict[str, Any] = {}
    for method in methods:
        own = [found[method, *key] for key in keys]
        names = [n for n in ("unseen_domain", "known_domains", "generalised", "span_share",
                             "mixed_share") if n in own[0]]  # fmt: skip
        entry: dict[str, Any] = {n: float(np.mean([row[n] for row in own])) for n in names}
        entry["targets"] = {
            t: float(np.mean([r["unseen_domain"] for r in own if r["target"] == t]))
            for t in sorted({key[0] for key in keys})
        }
        if "cross_entropy" in methods and method != "cross_entropy":
            base = [found["cross_entropy", *key] for key in keys]
            pairs = zip(own, base, strict=True)
            differences = [a["unseen_domain"] - b["unseen_domain"] for a, b in pairs]
            entry["above_cross_entropy"] = paired_difference(differences)
        result[method] = entry
    return result


def table(found: dict[str, Any]) -> str:
    """The table in Markdown, in percent."""
    columns = [n for n in ("unseen_domain", "known_domains", "generalised")
               if n in next(iter(found.values()))]  # fmt: skip
    head = ["", *(c.replace("_", " ") for c in columns), "above cross entropy (95 %)"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for method, entry in found.items():
        cells_ = [f"{100 * entry[c]:.1f}" for c in columns]
        difference = entry.get("above_cross_entropy")
        text = ""
        if difference and difference["interval"]:
            low, high = (100 * x for x in difference["interval"])
            text = f"{100 * difference['mean']:+.1f} ({low:+.1f} to {high:+.1f})"
        lines.append(f"| {TITLES[method]} | {' | '.join(cells_)} | {text} |")
    return "\n".join(lines) + "\n"


COMMAND = Command(
    "evaluate-names",
    "Measures names for unseen classes in unseen domains: CuMix and its baselines.",
    EvaluateOptions,
    run_evaluate_names,
    {
        "table": "the table in Markdown, relative to result.json",
        "rows": "every run: method, target, seed; mean per-class accuracy on unseen classes in "
        "the\n      unseen_domain and the known_domains (setting domains: accuracy); generalised: "
        "harmonic\n      mean with calibrated stacking by delta, from three seen classes on; "
        "span_share of the\n      unseen names, mixed_share",
        "summary": "means of each method, targets one by one, and above_cross_entropy: mean and "
        "95 %\n      interval of the paired differences in the unseen_domain, number of pairs",
    },
)
