# SPDX-License-Identifier: Apache-2.0
"""How often label providers propose the right name, alone and combined; fits their weights.

    python -m studies.name_providers --words DIR --choice DIR --bench DIR --objects DIR --out DIR

`--choice` holds labelled crops <any>/<class>/ on which the weights of `imagenet` and `names` are
fitted, `--bench` simulated things <domain>/<class>/. Of these, the known classes are left out of
the answers; the library's weight is fitted on the other trained classes, with a library of some of
their images; the six that were never trained on are reported, with the library that we ship.
`--objects` are folders <class>/ of real objects: classes that are names of ImageNet are left out,
the vocabulary has 1,000 names with the right ones among them; and once more (`… all`) with all
classes and the whole vocabulary. Features are computed once and every
provider ranks from them; milliseconds are those of the real providers on whole crops.

Writes `result.json`: weights, and for each set and each choice of providers `first`, `first_five`
(mean over classes) and `crops`; `milliseconds` of one crop. `limits` of confidence and span_share
of the best name keep 90 % of the choice crops' answers that have the right name among five;
`no_idea` of a set says how many answers with it (`lost`) and without it (`refused`) have less,
`calibration` how sure and how right the best name is.
"""

import argparse
import asyncio
import itertools
import json
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from newfound_core.calibration import calibration_error
from newfound_core.classifier import imagenet_classifier, imagenet_labels
from newfound_core.models import load_model
from newfound_core.naming import plain_name, read_names, read_word_vectors
from newfound_training.naming.imagenet import object_names
from newfound_training.naming.make import HOUSEHOLD
from newfound_web.combining import POOL, combine
from newfound_web.pictures import Picture
from newfound_web.providers.base import Candidate
from newfound_web.providers.local import ImageNet
from newfound_web.providers.names import Names
from newfound_web.vision import Namer, Vision
from tests import ROOT

KNOWN = (
    *("claw_hammer", "mallet", "combination_pliers", "needle_nose_pliers", "flat_screwdriver"),
    *("stubby_screwdriver", "wrench", "scissors", "banana", "bottle", "can", "mug", "apple"),
    *("book", "fork", "clamp"),
)
HELD_OUT = ("teapot", "tape_roll", "flashlight", "carrot", "ball", "light_bulb")
# Products of the Grocery Store set by what they are; a variety is its fruit.
GROCERIES = {
    "Anjou": "pear", "Conference": "pear", "Galia-Melon": "melon", "Red-Delicious": "apple",
    "Royal-Gala": "apple", "Floury-Potato": "potato", "Solid-Potato": "potato", "Red-Beet": "beet",
    "Vine-Tomato": "tomato", "Yellow-Onion": "onion", "Yellow-Bell-Pepper": "bell pepper",
    "Satsumas": "mandarin", "Red-Grapefruit": "grapefruit", "Carrots": "carrot",
    "Tropicana-Golden-Grapefruit": "juice", "Tropicana-Mandarin-Morning": "juice",
}  # fmt: skip
PARTS = (("Juice", "juice"), ("Yoghurt", "yogurt"), ("ghurt", "yogurt"), ("Milk", "milk"),
         ("Sour-Cream", "sour cream"))  # fmt: skip
KEPT = 0.9  # of the answers with the right name, by the limits below which there is no idea
MISSING = 1e-4  # probability of a right name that nobody proposed
Answers = dict[str, list[Candidate]]  # of each provider


def true_name(folder: str) -> str:
    """What the things in a class's folder are called."""
    if folder in GROCERIES:
        return GROCERIES[folder]
    return next((name for part, name in PARTS if part in folder), plain_name(folder))


class Crops:
    """Labelled crops and their features."""

    def __init__(self, files: Sequence[tuple[str, Path]], network: Any) -> None:
        self.names = [name for name, _ in files]
        self.paths = [path for _, path in files]
        parts = []
        for start in range(0, len(files), 16):
            images = [_open(path) for path in self.paths[start : start + 16]]
            with torch.inference_mode():
                parts.append(network.backbone(network.preprocessing.batch(images)))
        self.features = torch.cat(parts)


def _open(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def listed(folder: Path, per_class: int, wanted: Callable[[str], bool]) -> list[tuple[str, Path]]:
    """Files of <class>/ folders, at most so many of a class."""
    found = []
    for place in sorted(p for p in folder.iterdir() if p.is_dir() and wanted(p.name)):
        files = sorted(p for p in place.iterdir() if p.suffix in (".jpg", ".png"))
        found += [(true_name(place.name), file) for file in files[:per_class]]
    return found


class Providers:
    """The providers, ranking from features."""

    def __init__(self, words: Path) -> None:
        self.network = imagenet_classifier()
        self.model: Any = load_model(ROOT / "models" / "names", "cumix").model
        self.words = read_word_vectors(words)
        self.labels = imagenet_labels()

    def imagenet(self, features: torch.Tensor) -> list[Candidate]:
        with torch.inference_mode():
            best, classes = self.network.classifier(features).softmax(dim=0).topk(POOL)
        rows = zip(best.tolist(), classes.tolist(), strict=True)
        return [Candidate(self.labels[c], p, "imagenet") for p, c in rows]

    def names(
        self, features: torch.Tensor, vocabulary: Any, exclude: Sequence[str]
    ) -> list[Candidate]:
        answers = self.model.answer(features[None], vocabulary, POOL, exclude, 0.0)
        return [Candidate(a.name, a.confidence, "names", a.span_share) for a in answers]

    def answers(
        self, crops: Crops, vocabulary: Any, exclude: Sequence[str] = (), library: Any = None
    ) -> list[Answers]:
        left_out = {plain_name(name) for name in exclude}
        found = []
        for features in crops.features:
            one = {
                "imagenet": self.imagenet(features),
                "names": self.names(features, vocabulary, exclude),
            }
            if library is not None:
                one["library"] = nearest(library, features)
            found.append(
                {k: [c for c in v if plain_name(c.label) not in left_out] for k, v in one.items()}
            )
        return found


def nearest(library: Crops, features: torch.Tensor) -> list[Candidate]:
    """As `LibraryLabels` ranks."""
    unit = torch.nn.functional.normalize
    cosine = (unit(library.features, dim=1) @ unit(features, dim=0)).tolist()
    best: dict[str, float] = {}
    for name, value in zip(library.names, cosine, strict=True):
        best[name] = max(best.get(name, -1.0), value)
    ranked = sorted(best.items(), key=lambda item: -item[1])
    return [Candidate(name, min(max(value, 0.0), 1.0), "library") for name, value in ranked]


def ranked(
    answers: Answers, providers: Sequence[str], weights: dict[str, float]
) -> list[Candidate]:
    if len(providers) == 1:
        return answers[providers[0]]
    return combine([answers[name] for name in providers], weights)


def score(
    answers: Sequence[Answers],
    names: Sequence[str],
    providers: Sequence[str],
    weights: dict[str, float],
) -> dict[str, float]:
    """Mean over classes: right name first, among the first five; and the mean log probability."""
    first: dict[str, list[float]] = {}
    five: dict[str, list[float]] = {}
    likely = []
    for one, name in zip(answers, names, strict=True):
        found = ranked(one, providers, weights)
        labels = [plain_name(c.label) for c in found]
        first.setdefault(name, []).append(name in labels[:1])
        five.setdefault(name, []).append(name in labels[:5])
        p = found[labels.index(name)].confidence if name in labels else 0.0
        likely.append(math.log(max(p, MISSING)))
    means = [float(np.mean([np.mean(v) for v in table.values()])) for table in (first, five)]
    return {
        "first": means[0],
        "first_five": means[1],
        "log_probability": float(np.mean(likely)),
        "crops": len(names),
        "classes": len(first),
    }


def best_names(
    answers: Sequence[Answers], names: Sequence[str]
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Confidence and span_share of the best name of `names`; is it right; is one of five right."""
    found = [one["names"] for one in answers]
    labels = [[plain_name(c.label) for c in one[:5]] for one in found]
    values = {k: np.array([getattr(one[0], k) for one in found])
              for k in ("confidence", "span_share")}  # fmt: skip
    first = np.array([name == own[0] for name, own in zip(names, labels, strict=True)])
    five = np.array([name in own for name, own in zip(names, labels, strict=True)])
    return values, first, five


def refusals(
    answers: Sequence[Answers], names: Sequence[str], limits: dict[str, float]
) -> dict[str, Any]:
    """What "no idea" below each limit costs and saves, and how right the confidence is."""
    values, first, five = best_names(answers, names)
    sure = torch.from_numpy(values["confidence"])
    high = values["confidence"] > 0.2
    return {
        "no_idea": {
            k: {"lost": float((v[five] < limits[k]).mean()),
                "refused": float((v[~five] < limits[k]).mean())}
            for k, v in values.items()
        },
        "calibration": {
            "confidence": float(sure.mean()),
            "first": float(first.mean()),
            "error": calibration_error(sure, torch.from_numpy(first)),
            "above_20": {"answers": int(high.sum()), "confidence": float(sure[high].mean()),
                         "first": float(first[high].mean())},
        },
    }  # fmt: skip


def fit(
    answers: Sequence[Answers], names: Sequence[str], grid: dict[str, Sequence[float]]
) -> dict[str, float]:
    """The weights of the grid that make the right names most probable."""
    best: tuple[float, dict[str, float]] = (-math.inf, {})
    for values in itertools.product(*grid.values()):
        weights = dict(zip(grid, values, strict=True))
        found = score(answers, names, list(grid), weights)["log_probability"]
        best = max(best, (found, weights), key=lambda item: item[0])
    return best[1]


def demo_files(folder: Path) -> list[tuple[str, Path]]:
    """The teapot of the demo's clip, cut out as the node does, once in 1.2 s; it changes light."""
    clip = ROOT / "src/newfound_sim/clips/workbench_demo"
    description = json.loads((clip / "clip.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number, frame in enumerate(description["frames"][::12]):
        for thing in description["truths"][frame["truth"]]["objects"]:
            left, top, width, height = thing["box"]
            if thing["label"] != "teapot" or min(width, height) < 30:
                continue
            margin = 0.1 * max(width, height)
            box = (left - margin, top - margin, left + width + margin, top + height + margin)
            picture = Image.open(clip / frame["image"])
            inside = (*np.maximum(box[:2], 0), *np.minimum(box[2:], picture.size))
            picture.crop(inside).save(folder / f"{number:03d}.png")
            found.append(("teapot", folder / f"{number:03d}.png"))
    return found


def milliseconds(files: Sequence[Path]) -> dict[str, float]:
    """Median time of one crop by the real providers."""
    vision = Vision()
    providers = {"imagenet": ImageNet(vision.names),
                 "names": Names(Namer(ROOT / "models" / "names", None, 0.0), 0.0)}  # fmt: skip
    found = {}
    for name, provider in providers.items():
        times = []
        for path in files:
            picture = Picture(_open(path), "")
            start = time.perf_counter()
            asyncio.run(provider.candidates(picture, 5))
            times.append(1000 * (time.perf_counter() - start))
        found[name] = float(np.median(times))
    return found


def bench_sets(folder: Path, per_class: int, network: Any) -> tuple[Crops, Crops, Crops, Crops]:
    """(choice, its library, held out, its library); choice and library are of other domains."""
    domains = sorted(p for p in folder.iterdir() if p.is_dir() and (p / "teapot").is_dir())

    def files(places: Sequence[Path], count: int, wanted: Callable[[str], bool]) -> list:
        return [f for place in places for f in listed(place, count, wanted)]

    def choice(name: str) -> bool:
        return name not in KNOWN and name not in HELD_OUT

    shipped = listed(ROOT / "src/newfound_sim/library", 99, lambda name: True)
    return (
        Crops(files(domains[1:], max(1, per_class // 4), choice), network),
        Crops(files(domains[:1], 8, choice), network),
        Crops(files(domains, per_class, lambda name: name in HELD_OUT), network),
        Crops(shipped, network),
    )


STEPS = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.3)  # weights that are tried
LIBRARY_STEPS = (5, 10, 20, 40, 60, 80, 120, 160)
Sets = dict[str, dict[str, Any]]  # what result.json has of each set of crops


def main() -> None:
    arguments = parse()
    providers = Providers(arguments.words)
    choice = choice_crops(arguments.choice, providers)
    sets, weights, limits = on_choice(choice, providers)
    more, weights = on_bench(arguments, providers, weights)
    sets |= more | on_objects(arguments, providers, weights, limits)
    result = {
        "limits": limits,
        "weights": weights,
        "sets": sets,
        "milliseconds": milliseconds(choice.paths[:20]),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "result.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--choice", type=Path, required=True)
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--objects", type=Path, nargs="+", required=True)
    parser.add_argument("--per-class", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def choice_crops(folder: Path, providers: Providers) -> Crops:
    """Labelled crops whose names the model has."""
    own = set(providers.model.own_vocabulary().names)
    places = sorted(place for place in folder.iterdir() if place.is_dir())
    files = [f for place in places for f in listed(place, 20, lambda n: true_name(n) in own)]
    return Crops(files, providers.network)


def on_choice(
    choice: Crops, providers: Providers
) -> tuple[Sets, dict[str, float], dict[str, float]]:
    """The set that weights of `imagenet` and `names`, and limits of "no idea", are fitted on."""
    answers = providers.answers(choice, providers.model.own_vocabulary())
    weights = fit(answers, choice.names, {"imagenet": STEPS, "names": STEPS})
    values, _, five = best_names(answers, choice.names)
    limits = {k: float(np.quantile(v[five], 1 - KEPT)) for k, v in values.items()}
    found = table(answers, choice.names, ("imagenet", "names"), weights)
    return {"choice": found | refusals(answers, choice.names, limits)}, weights, limits


def on_bench(
    arguments: argparse.Namespace, providers: Providers, weights: dict[str, float]
) -> tuple[Sets, dict[str, float]]:
    """Simulated things: the weight of the library is fitted on some, and joins the others."""
    own, known = providers.model.own_vocabulary(), [plain_name(name) for name in KNOWN]
    seen, seen_library, held_out, library = bench_sets(
        arguments.bench, arguments.per_class, providers.network
    )
    grid = {name: (weights[name],) for name in ("imagenet", "names")} | {"library": LIBRARY_STEPS}
    weights = fit(providers.answers(seen, own, known, seen_library), seen.names, grid)
    demo = Crops(demo_files(arguments.out / "demo"), providers.network)
    sets: Sets = {}
    for name, crops, shelf in (
        ("demo", demo, library),
        ("bench choice", seen, seen_library),
        ("bench held out", held_out, library),
    ):
        answers = providers.answers(crops, own, known, shelf)
        found = table(answers, crops.names, ("imagenet", "names", "library"), weights)
        sets[name] = found | {"by_class": by_class(answers, crops.names, weights)}
    return sets, weights


def on_objects(
    arguments: argparse.Namespace,
    providers: Providers,
    weights: dict[str, float],
    limits: dict[str, float],
) -> Sets:
    """Photographs: without ImageNet's names among a thousand, then all of them."""
    imagenet, sets = {plain_name(label) for label in imagenet_labels()}, {}
    for folder in arguments.objects:
        for left_out, most in ((imagenet, 1000), (set(), None)):
            wanted = partial(lambda out, n: true_name(n) not in out, left_out)
            crops = Crops(listed(folder, arguments.per_class, wanted), providers.network)
            names = [*dict.fromkeys([*crops.names, *read_names(HOUSEHOLD), *object_names()])]
            vocabulary = providers.model.encode(names[:most], providers.words)
            answers = providers.answers(crops, vocabulary)
            found = table(answers, crops.names, ("imagenet", "names"), weights)
            found |= refusals(answers, crops.names, limits)
            sets[folder.parent.name + ("" if most else " all")] = found
    return sets


def table(
    answers: Sequence[Answers],
    names: Sequence[str],
    providers: Sequence[str],
    weights: dict[str, float],
) -> dict[str, Any]:
    """Every choice of providers."""
    choices = [
        c for n in range(1, len(providers) + 1) for c in itertools.combinations(providers, n)
    ]
    return {"+".join(c): score(answers, names, c, weights) for c in choices}


def by_class(
    answers: Sequence[Answers], names: Sequence[str], weights: dict[str, float]
) -> dict[str, Any]:
    """Right name first, for the library alone and with names."""
    found = {}
    for name in sorted(set(names)):
        own = [a for a, n in zip(answers, names, strict=True) if n == name]
        found[name] = {
            "+".join(c): score(own, [name] * len(own), c, weights)["first"]
            for c in (("library",), ("names", "library"), ("imagenet", "names", "library"))
        }
    return found


if __name__ == "__main__":
    main()
