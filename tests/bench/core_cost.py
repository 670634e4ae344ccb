# SPDX-License-Identifier: Apache-2.0
"""What the methods cost per frame: EfficientNet-Lite0 at 224 px, batch 1, two threads.

All contestants of a row's group take turns in one loop. Target: WBN with 8 domains at most
1.10 x plain BN and at most 1.05 x WBN with 2; ONDA `streaming` at most 1.10 x, `batch` at most
1.6 x plain inference, amortised over their updates (channels last, which serving uses, and
against plain inference in that and in PyTorch's default format); deciding about 300 regions
against 1,000 classes of 1,280 dimensions at most 0.15 of a backbone pass.
"""

import statistics
from collections.abc import Callable

import torch

from newfound_core.allocation import keep_freed_memory
from newfound_core.backbones import Backbone, build_backbone
from newfound_core.classifier import Classifier
from newfound_core.onda import Onda, OndaConfig
from newfound_core.open_world.heads import build_head
from newfound_core.places import BnClassifier, BsfClassifier, WbnClassifier
from tests.bench._timing import interleaved

FRAMES = 10  # per turn, so that every turn of ONDA holds exactly one update
CLASSES = 10


def pretrained() -> Backbone:
    return build_backbone("efficientnet_lite0", weights="imagenet")


def frames() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(1, 3, 224, 224, generator=generator) for _ in range(FRAMES)]


def over(images: list[torch.Tensor], function: Callable[[torch.Tensor], object]) -> Callable:
    def turn() -> None:
        with torch.no_grad():
            for image in images:
                function(image)

    return turn


def rows(
    group: str,
    contestants: dict[str, Callable[[], object]],
    base: str,
    target: dict[str, str],
    rounds: int,
    per_turn: int,
) -> list[dict]:
    seconds = interleaved(contestants, rounds, warm_up=2)
    # The ratio of each turn to the base's turn beside it: what slows both cancels.
    return [
        {
            "group": group,
            "contestant": name,
            "ms": 1e3 * statistics.median(seconds[name]) / per_turn,
            "ratio": statistics.median(
                a / b for a, b in zip(seconds[name], seconds[base], strict=True)
            ),
            "of": base,
            "target": target.get(name, ""),
        }
        for name in contestants
    ]


def places(rounds: int, images: list[torch.Tensor]) -> list[dict]:
    models = {"BN": BnClassifier(pretrained(), CLASSES)}
    for k in (2, 4, 8, 16):
        models[f"WBN k={k}"] = WbnClassifier(pretrained(), CLASSES, k)
    models["BSF k=8"] = BsfClassifier(pretrained(), CLASSES, 8)
    turns = {name: over(images, model.eval().categorize) for name, model in models.items()}
    against_bn = rows("places", turns, "BN", {"WBN k=8": "<= 1.10"}, rounds, FRAMES)
    some = {name: turns[name] for name in ("WBN k=2", "WBN k=8")}
    return against_bn + rows("domains", some, "WBN k=2", {"WBN k=8": "<= 1.05"}, rounds, FRAMES)


def adaptation(rounds: int, images: list[torch.Tensor]) -> list[dict]:
    """ONDA against plain inference in the same memory format, and against PyTorch's default."""

    def network() -> Classifier:
        return Classifier(pretrained(), CLASSES).eval()

    def fast_network() -> torch.nn.Module:
        return network().to(memory_format=torch.channels_last)

    fast = [image.contiguous(memory_format=torch.channels_last) for image in images]
    turns = {
        "plain, default format": over(images, network()),
        "plain, channels last": over(fast, fast_network()),
    }
    for estimator in ("streaming", "batch"):
        onda = Onda(
            fast_network(), OndaConfig.thesis(estimator=estimator, frames_per_update=FRAMES)
        )
        turns[f"ONDA {estimator}"] = over(fast, onda.predict)
    target = {"ONDA streaming": "<= 1.10", "ONDA batch": "<= 1.6"}
    return [
        row
        for base in ("plain, channels last", "plain, default format")
        for row in rows("adaptation", turns, base, target, rounds, FRAMES)
    ]


def decisions(rounds: int, images: list[torch.Tensor]) -> list[dict]:
    backbone = pretrained().eval()
    turns = {"backbone pass": over(images[:1], backbone)}
    generator = torch.Generator().manual_seed(2)
    regions = torch.nn.functional.normalize(torch.randn(300, 1280, generator=generator))
    for count in (10, 100, 1000):
        head = build_head("ncm", 1280)
        head.extend([f"class {number}" for number in range(count)])
        means = torch.nn.functional.normalize(torch.randn(4 * count, 1280, generator=generator))
        labels = torch.arange(count).repeat(4)
        head.refit([(means, labels)], features_changed=True)
        head.fit_thresholds(means, labels)
        turns[f"300 regions, {count} classes"] = over([regions], head.decide)
    target = {"300 regions, 1000 classes": "<= 0.15"}
    return rows("open world", turns, "backbone pass", target, rounds * 4, 1)


def run(quick: bool) -> list[dict]:
    keep_freed_memory()  # as the nodes do
    torch.set_num_threads(2)
    rounds, images = (4 if quick else 40), frames()
    return places(rounds, images) + adaptation(rounds, images) + decisions(rounds, images)
