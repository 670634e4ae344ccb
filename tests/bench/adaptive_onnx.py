# SPDX-License-Identifier: Apache-2.0
"""ONDA on ONNX Runtime against the session that does not adapt, and against PyTorch.

EfficientNet-Lite0 at 224 px, batch 1, two threads, `streaming`; updates are part of the time.
Contestants take turns of 70 frames of noise, in each of which all that adapt update at least
once; those of ONNX Runtime first, then PyTorch in turn with the folded session. On ONNX every
frame is learned from for 160 frames `after a change`, then one in 7 while `settled`. The stream:
4,000 pictures of the shipped clip `light_change`, whose light changes every 1,000 frames (100 s
at 10 Hz) without telling anybody, in turn with the folded session. `learned from`: per cent of
the frames. `in another light`: accuracy after the change on that clip, with the shipped
`sim_workbench` at 128 px, mean over five orders of the frames of either light (the first is the
clip's), each frame once. Target: over the stream at most 1.25 x the folded session, with the gain
of `streaming` kept.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence

import cv2
import numpy as np
import torch
from torch import Tensor

from newfound_core.allocation import keep_freed_memory
from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.export import trace_onnx
from newfound_core.inference import InferenceConfig, build_inference
from newfound_core.models import LoadedModel, load_model
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.onnx_folding import LEARN_EVERY, OnnxFolding
from newfound_core.onnx_runtime import INPUT_NAME, make_session
from newfound_core.preprocessing import Preprocessing
from newfound_sim.clip import load_clip
from tests import ROOT
from tests.bench._timing import interleaved

FRAMES, SIZE, THREADS, ORDERS = 70, 224, 2, 5
LIGHT_FRAMES, CHANGES, PART = 1000, 4, 20  # of the stream; frames of one turn in it
CLIP = ROOT / "src" / "newfound_sim" / "clips" / "light_change"
MODEL = ROOT / "models" / "sim_workbench"
CONFIG = OndaConfig.thesis(estimator="streaming", layers="all")
FOLDED = "onnx, folded, does not adapt"
ON_TORCH, PLAIN = "torch, ONDA", "torch, plain"
EVERY = "onnx, ONDA, every frame looked at"
CHANGED, SETTLED = "onnx, ONDA, after a change", "onnx, ONDA, settled"
STREAM = f"onnx, ONDA, light changes every {LIGHT_FRAMES} frames"
TARGETS = {STREAM: "<= 1.25"}


def network() -> Classifier:
    torch.manual_seed(0)
    return Classifier(build_backbone("efficientnet_lite0", weights="imagenet"), 10).eval()


def engine(size: int, learn_every: int = LEARN_EVERY) -> Callable:
    """What makes an Onda serve by ONNX Runtime."""
    return lambda layers: OnnxFolding(
        layers, size=size, positions=16, learn_every=learn_every, threads=THREADS
    )


def noise() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(1, 3, SIZE, SIZE, generator=generator) for _ in range(FRAMES)]


def folded_session() -> Callable:
    session = make_session(trace_onnx(network(), noise()[0]).content, threads=THREADS)
    return lambda image: session.run(None, {INPUT_NAME: image.numpy()})


def phases(rounds: int) -> tuple[dict[str, list[float]], ...]:
    """Seconds of every turn of noise, their ratios, and the share of frames learned from."""
    images, folded = noise(), folded_session()
    changed = Onda(network(), CONFIG, engine=engine(SIZE))
    on_onnx = {
        EVERY: Onda(network(), CONFIG, engine=engine(SIZE, 1)),
        CHANGED: changed,
        SETTLED: Onda(network(), CONFIG, engine=engine(SIZE)),
    }
    on_torch = {
        ON_TORCH: Onda(network().to(memory_format=torch.channels_last), CONFIG),
        PLAIN: network(),
    }

    def turn(run: Callable) -> Callable[[], None]:
        @torch.no_grad()
        def over() -> None:
            if run is changed:
                changed.reset()
            for image in images:
                run(image)

        return over

    for _ in range(4):
        turn(on_onnx[SETTLED])()
    seconds: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    for group in (on_onnx, on_torch):
        contestants = {FOLDED: folded, **group}
        before = {n: c.status() for n, c in group.items() if isinstance(c, Onda)}
        found = interleaved({n: turn(c) for n, c in contestants.items()}, rounds, warm_up=2)
        for name, status in before.items():
            after = group[name].status()
            counted = after.counted - status.counted
            shares[name] = [counted / (after.frames - status.frames)]
        seconds = found | seconds
        ratios |= {
            name: [a / b for a, b in zip(of_name, found[FOLDED], strict=True)]
            for name, of_name in found.items()
        }
    return seconds, ratios, shares


def pictures(order: int) -> list[list[tuple[np.ndarray, str]]]:
    """Pictures of the clip with their labels, before and after the change of light."""
    clip = load_clip(CLIP)
    lights: list[list[tuple[np.ndarray, str]]] = [[], []]
    first = clip.truths[clip.frames[0].truth].illumination
    for frame in clip.frames:
        truth = clip.truths[frame.truth]
        rgb = cv2.cvtColor(cv2.imread(str(CLIP / frame.image)), cv2.COLOR_BGR2RGB)
        lights[truth.illumination != first].append((rgb, truth.objects[0].label))
    if order:
        for light in lights:
            random.Random(order).shuffle(light)
    return lights


def stream(changes: int) -> tuple[float, float, float]:
    """Milliseconds of a frame, ratio to the folded session, and share learned from."""
    prepare = Preprocessing(SIZE).batch
    lights = [[prepare([rgb]) for rgb, _ in light] for light in pictures(0)]
    generator, parts = random.Random(0), []
    for change in range(changes):
        frames = generator.choices(lights[change % 2], k=LIGHT_FRAMES)
        parts += [frames[start : start + PART] for start in range(0, LIGHT_FRAMES, PART)]
    folded, onda = folded_session(), Onda(network(), CONFIG, engine=engine(SIZE))
    spent = {folded: 0.0, onda: 0.0}
    for part in parts:
        for run in spent:
            start = time.perf_counter()
            for image in part:
                run(image)
            spent[run] += time.perf_counter() - start
    status = onda.status()
    return (
        1e3 * spent[onda] / status.frames,
        spent[onda] / spent[folded],
        status.counted / status.frames,
    )


def accuracy(run: Callable, loaded: LoadedModel, order: int) -> float:
    """Per cent of the frames after the change of light that are named right."""
    right: Sequence[bool] = []
    for light in pictures(order):
        right = []  # of the last light
        for rgb, label in light:
            with torch.no_grad():
                logits = run(loaded.prepare([rgb]))[0, : len(loaded.labels)]
            right.append(loaded.labels[int(logits.argmax())] == label)
    return 100 * float(np.mean(right))


def accuracies() -> dict[str, float]:
    size, found = load_model(MODEL).metadata.preprocessing.size, {}
    for name, made_by in {
        ON_TORCH: None, EVERY: engine(size, 1), STREAM: engine(size),
    }.items():  # fmt: skip
        loaded, each = load_model(MODEL), []
        onda = Onda(loaded.model, CONFIG, engine=made_by)
        for order in range(ORDERS):
            onda.reset()
            each.append(accuracy(onda, loaded, order))
        found[name] = statistics.mean(each)
    loaded = load_model(MODEL)
    source = build_inference(loaded, InferenceConfig("onnx", threads=THREADS))
    found[FOLDED] = found[PLAIN] = accuracy(source.run, loaded, 0)
    return found


def run(quick: bool) -> list[dict]:
    keep_freed_memory()  # as the nodes do
    torch.set_num_threads(THREADS)
    streamed = stream(2 if quick else CHANGES)
    seconds, ratios, learned = phases(3 if quick else 20)
    found = accuracies()

    def row(name: str, ms: float, to_folded: float, share: float) -> dict:
        return {
            "contestant": name,
            "ms": ms,
            "to the folded session": to_folded,
            "target": TARGETS.get(name, ""),
            "learned from, %": 100 * share,
            "in another light, %": found.get(name, ""),
        }

    return [row(STREAM, *streamed)] + [
        row(
            name,
            1e3 * statistics.median(seconds[name]) / FRAMES,
            statistics.median(ratios[name]),
            *learned.get(name, [0.0]),
        )
        for name in (FOLDED, SETTLED, CHANGED, EVERY, ON_TORCH, PLAIN)
    ]
