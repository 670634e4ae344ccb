# SPDX-License-Identifier: Apache-2.0
"""ONDA on ONNX Runtime against the session that does not adapt, and against PyTorch.

EfficientNet-Lite0 at 224 px, batch 1, two threads, `streaming`; a turn is 30 frames, in which each
adapts at least once, and its updates are part of the time. `in another light`: accuracy on the
shipped clip `light_change` after the change, with the shipped `sim_workbench`, each frame once.
Target: at most 1.25 x the folded session, with the gain of `streaming` kept.
"""

import statistics
from collections.abc import Callable

import cv2
import numpy as np
import torch

from newfound_core.allocation import keep_freed_memory
from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.export import trace_onnx
from newfound_core.inference import InferenceConfig, build_inference
from newfound_core.models import LoadedModel, load_model
from newfound_core.onda import Onda, OndaConfig
from newfound_core.onda.onnx_folding import LEARN_EVERY, OnnxFolding
from newfound_core.onnx_runtime import INPUT_NAME, make_session
from newfound_sim.clip import load_clip
from tests import ROOT
from tests.bench._timing import interleaved

FRAMES, SIZE, THREADS = 30, 224, 2
CLIP = ROOT / "src" / "newfound_sim" / "clips" / "light_change"
MODEL = ROOT / "models" / "sim_workbench"
FOLDED = "onnx, folded, does not adapt"
ON_TORCH = "torch, ONDA"
EVERY = "onnx, ONDA, every frame looked at"
USUAL = f"onnx, ONDA, one frame in {LEARN_EVERY}"
LATE = f"onnx, ONDA, one frame in {LEARN_EVERY}, last 16 layers"
TARGETS = {USUAL: "<= 1.25"}


def network() -> Classifier:
    torch.manual_seed(0)
    return Classifier(build_backbone("efficientnet_lite0", weights="imagenet"), 10).eval()


def engine(size: int, learn_every: int = LEARN_EVERY) -> Callable:
    """What makes an Onda serve by ONNX Runtime."""
    return lambda layers: OnnxFolding(
        layers, size=size, positions=16, learn_every=learn_every, threads=THREADS
    )


def turns() -> dict[str, Callable[[], None]]:
    generator = torch.Generator().manual_seed(1)
    images = [torch.randn(1, 3, SIZE, SIZE, generator=generator) for _ in range(FRAMES)]
    plain = network()
    session = make_session(trace_onnx(plain, images[0]).content, threads=THREADS)
    config = OndaConfig.thesis(estimator="streaming", layers="all")
    late = OndaConfig.thesis(estimator="streaming", layers="last:16")
    fast = network().to(memory_format=torch.channels_last)
    contestants: dict[str, Callable] = {
        FOLDED: lambda image: session.run(None, {INPUT_NAME: image.numpy()}),
        EVERY: Onda(network(), config, engine=engine(SIZE, 1)),
        USUAL: Onda(network(), config, engine=engine(SIZE)),
        LATE: Onda(network(), late, engine=engine(SIZE)),
        "torch, plain": plain,
        ON_TORCH: Onda(fast, config),
    }

    def turn(run: Callable) -> Callable[[], None]:
        @torch.no_grad()
        def over() -> None:
            for image in images:
                run(image)

        return over

    return {name: turn(run) for name, run in contestants.items()}


def accuracy(run: Callable, loaded: LoadedModel) -> float:
    """Per cent of the frames after the change of light that are named right."""
    clip, right = load_clip(CLIP), []
    first = clip.truths[clip.frames[0].truth].illumination
    for frame in clip.frames:
        truth = clip.truths[frame.truth]
        rgb = cv2.cvtColor(cv2.imread(str(CLIP / frame.image)), cv2.COLOR_BGR2RGB)
        with torch.no_grad():
            logits = run(loaded.prepare([rgb]))[0, : len(loaded.labels)]
        if truth.illumination != first:
            right.append(loaded.labels[int(logits.argmax())] == truth.objects[0].label)
    return 100 * float(np.mean(right))


def accuracies() -> dict[str, float]:
    config = OndaConfig.thesis(estimator="streaming", layers="all")
    size, found = load_model(MODEL).metadata.preprocessing.size, {}
    for name, made_by in {
        ON_TORCH: None, EVERY: engine(size, 1), USUAL: engine(size),
    }.items():  # fmt: skip
        loaded = load_model(MODEL)
        found[name] = accuracy(Onda(loaded.model, config, engine=made_by), loaded)
    loaded = load_model(MODEL)
    source = build_inference(loaded, InferenceConfig("onnx", threads=THREADS))
    found[FOLDED] = found["torch, plain"] = accuracy(source.run, loaded)
    return found


def run(quick: bool) -> list[dict]:
    keep_freed_memory()  # as the nodes do
    torch.set_num_threads(THREADS)
    seconds = interleaved(turns(), rounds=3 if quick else 30, warm_up=2)
    found = accuracies()

    def ratio(name: str, base: str) -> float:
        pairs = zip(seconds[name], seconds[base], strict=True)
        return statistics.median(a / b for a, b in pairs)

    return [
        {
            "contestant": name,
            "ms": 1e3 * statistics.median(seconds[name]) / FRAMES,
            "to the folded session": ratio(name, FOLDED),
            "target": TARGETS.get(name, ""),
            "to torch, ONDA": ratio(name, ON_TORCH),
            "in another light, %": found.get(name, ""),
        }
        for name in seconds
    ]
