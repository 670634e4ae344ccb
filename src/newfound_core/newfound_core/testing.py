# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with random weights, for tests and benchmarks that need a model and no skill."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import torch

from newfound_core.backbones import Backbone, build_backbone
from newfound_core.classifier import Classifier
from newfound_core.detection.region_network import RegionConfig, RegionNetwork
from newfound_core.latent import LatentClassifier, LatentConfig
from newfound_core.models import LoadedModel, load_model, save_model
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.inputs import Inputs
from newfound_core.open_world.learner import learn_step
from newfound_core.open_world.memory import Memory, MemoryConfig, Sample
from newfound_core.open_world.memory_store import save_memory
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.open_world.ridge_lda import RidgeLda
from newfound_core.open_world.step_config import StepConfig
from newfound_core.places import BsfClassifier, PlaceClassifier, WbnClassifier
from newfound_core.predictive import (
    AdaGraphClassifier,
    DomainGraph,
    Field,
    GraphConfig,
    Node,
    RegressionConfig,
    Schema,
    StemAxes,
)
from newfound_core.predictive.measured import NAMES as MEASURED
from newfound_core.predictive.measured import average, measured_fields
from newfound_core.predictive.stem_fields import StemMeasurer
from newfound_core.preprocessing import Preprocessing, default_preprocessing
from newfound_core.rejection import Rejection, RejectionConfig
from newfound_core.segmentation.network import SegmentationConfig, SegmentationNetwork
from newfound_core.segmentation.reference import write_reference
from newfound_core.segmentation.samples import LabelledImage, compute_samples
from newfound_core.segmentation.training import TrainingConfig, fit

LABELS, DOMAINS = ("mug", "hammer", "banana"), ("townhouse", "loft")
LIGHTS = {"day": -1.0, "night": -3.0}  # log luminance
COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (30, 60, 220)}


def tiny(
    folder: Path,
    method: str = "source",
    *,
    seed: int = 1,
    labels: Sequence = LABELS,
    rejects: float | None = None,
) -> Path:
    """A small network on 32 px: milliseconds a frame."""
    torch.manual_seed(seed)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    return save(folder, method, backbone, labels, Preprocessing(size=32), rejects=rejects)


def usual(folder: Path, method: str = "source") -> Path:
    """The default backbone at its usual size, with ImageNet weights and a random classifier."""
    name = "efficientnet_lite0"
    backbone = build_backbone(name, weights="imagenet")
    return save(folder, method, backbone, LABELS, default_preprocessing(name))


def save(
    folder: Path,
    method: str,
    backbone: Backbone,
    labels: Sequence[str],
    preprocessing: Preprocessing,
    *,
    rejects: float | None = None,
) -> Path:
    """A model of the method around the backbone, as a checkpoint.

    `rejects` is the probability with which it calls any image unknown; None: it cannot.
    """
    domains = DOMAINS if method in ("wbn", "bsf", "mda") else ()
    count = len(labels)
    model = {
        "source": lambda: Classifier(backbone, count),
        "bn": lambda: PlaceClassifier(backbone, count),
        "wbn": lambda: WbnClassifier(backbone, count, len(domains)),
        "bsf": lambda: BsfClassifier(backbone, count, len(domains)),
        "mda": lambda: LatentClassifier(backbone, count, LatentConfig(0, len(domains))),
    }[method]()
    if rejects is not None:
        model.rejection = Rejection(backbone.feature_dim, count, RejectionConfig("energy"))
        model.rejection.slope.fill_(1e-6)
        model.rejection.bias.fill_(math.log(1 / rejects - 1))
    return save_model(folder, model, labels, preprocessing, domains=domains)


def tiny_adagraph(folder: Path, *, stem: bool = False) -> Path:
    """A tiny source network with a graph of four domains: two lights, two cameras.

    Measured are the numbers of measured.py, or with `stem` the stem statistics of grey noise.
    """
    loaded = load_model(tiny(folder.with_name(f"{folder.name}_source")))
    rows = len(NormalizationLayers(loaded.model).row_layer)
    generator = torch.Generator().manual_seed(0)
    assert isinstance(loaded.model, Classifier)
    axes, measured = _tiny_stem(loaded) if stem else (None, _tiny_numbers())
    nodes = [
        Node(f"{light}_{camera}", {"light": light, "camera": camera} | seen, 20)
        for (light, camera), seen in zip(
            product(LIGHTS, ("kinect", "webcam")), measured, strict=True
        )
    ]
    fields = measured_fields() if axes is None else axes.fields()
    schema = Schema((Field("light"), Field("camera"), *fields))
    schema = schema.fitted([n.metadata for n in nodes])
    mean = 0.3 * torch.randn(len(nodes), rows, generator=generator)
    variance = 0.5 + torch.rand(len(nodes), rows, generator=generator)
    config = GraphConfig(
        described=RegressionConfig("additive"),
        measured=RegressionConfig("kernel"),
        both=RegressionConfig("additive", ridge=0.3, measured_weight=0.5),
        prior_frames=10.0,
        whitening=tuple(map(tuple, (5 * np.eye(len(fields))).tolist())),
    )
    graph = DomainGraph(schema, nodes, mean, variance, config, axes=axes)
    model = AdaGraphClassifier.around(loaded.model, graph)
    return save_model(folder, model, loaded.labels, loaded.metadata.preprocessing)


def _tiny_numbers() -> list[dict[str, float]]:
    return [
        dict.fromkeys(MEASURED, float(n)) | {"luminance": LIGHTS[light]}
        for n, (light, _) in enumerate(product(LIGHTS, range(2)))
    ]


def _tiny_stem(loaded: LoadedModel) -> tuple[StemAxes, list[dict[str, float]]]:
    """Noise of the stream fixture by day, a tenth as bright by night; the webcam's is brighter."""
    assert isinstance(loaded.model, Classifier)
    measurer = StemMeasurer(loaded.model.backbone, loaded.metadata.preprocessing)
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 256, (20, 48, 64, 3))
    domains = [
        measurer.statistics(list((noise * light + camera).clip(0, 255).astype(np.uint8)))
        for light, camera in product((1.0, 0.1), (0, 10))
    ]
    axes = StemAxes.fitted(domains)
    return axes, [average(axes.project(domain)) for domain in domains]


def square(colour: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    """A picture of a square of a colour on grey noise, uint8 [48, 64, 3]."""
    generator = np.random.default_rng([seed, *colour])
    pixels = generator.integers(100, 120, (48, 64, 3)).astype(np.uint8)
    pixels[8:40, 12:52] = colour
    return pixels


def tiny_open_world(
    folder: Path,
    colours: Mapping[str, tuple[int, int, int]] = COLOURS,
    images: int = 6,
    held_out: float = 0.2,
) -> Path:
    """A tiny open-world checkpoint with a memory, that knows a few colours."""
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    model = OpenWorldModel(backbone, build_head("bdoc", backbone.feature_dim))
    preprocessing = Preprocessing(16)
    samples = [
        Sample(square(colour, seed), label, f"{label}{seed}")
        for label, colour in colours.items()
        for seed in range(images)
    ]
    memory, inputs = Memory(MemoryConfig(40, held_out)), Inputs(preprocessing)
    step = learn_step(model, samples, memory, inputs, StepConfig(epochs=0))
    return save_model(
        folder,
        step.model,
        list(colours),
        preprocessing,
        write_memory=lambda place: save_memory(step.memory, place),
    )


def tiny_blank(folder: Path) -> Path:
    """A tiny open-world checkpoint that knows no class, with a background of twelve colours."""
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    model = OpenWorldModel(backbone, build_head("ridge_lda", backbone.feature_dim))
    preprocessing = Preprocessing(16)
    colours = np.random.default_rng(0).integers(0, 255, (12, 3)).tolist()
    samples = [
        Sample(square(tuple(colour), seed), str(colour), f"{colour}{seed}")
        for colour in colours
        for seed in range(9)
    ]
    memory = Memory(MemoryConfig(120))
    learned = learn_step(model, samples, memory, Inputs(preprocessing)).model
    assert isinstance(learned.head, RidgeLda)
    learned.head.forget_names()
    return save_model(
        folder, learned, [], preprocessing, write_memory=lambda place: save_memory(memory, place)
    )


def coloured_scene(
    colours: Mapping[str, tuple[int, int, int]], seed: int, size: tuple[int, int] = (48, 64)
) -> tuple[np.ndarray, np.ndarray]:
    """Rectangles of colours on grey noise, uint8 [H, W, 3], and their numbers from 1 on [H, W]."""
    generator = np.random.default_rng([seed, 3])
    rgb = generator.integers(90, 130, (*size, 3)).astype(np.uint8)
    numbers = np.zeros(size, np.uint8)
    high, wide = size[0] // 2, size[1] // 3
    slots = generator.permutation(6)
    for number, (colour, slot) in enumerate(zip(colours.values(), slots, strict=False), 1):
        top, left = slot // 3 * high + generator.integers(4), slot % 3 * wide
        part = np.s_[top : top + high - 4, left : left + wide - generator.integers(1, 5)]
        rgb[part], numbers[part] = colour, number
    return rgb, numbers


def tiny_segments(folder: Path, *, skilled: bool = False) -> Path:
    """A tiny segmentation network on 32 px for three colours; `skilled`: trained for a moment."""
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    shape = SegmentationConfig(width=16, low_width=8, low_stride=2, output_stride=2, steps=(3,))
    network, preprocessing = SegmentationNetwork(backbone, 4, shape).eval(), Preprocessing(32)
    frames = [LabelledImage(*coloured_scene(COLOURS, seed)) for seed in range(26)]
    if skilled:
        config = TrainingConfig(iterations=100, batch_size=6, learning_rate=5e-3, frozen=0)
        samples = compute_samples(network, frames[4:], preprocessing, frozen=0, variants=1)
        fit(network, samples, np.arange(256, dtype=np.uint8), config)
    save_model(folder, network, ["background", *COLOURS], preprocessing)
    write_reference(folder, frames[:4])
    return folder


def tiny_regions(folder: Path) -> Path:
    """A tiny region network with random weights, for which anything may be an object."""
    torch.manual_seed(0)
    backbone = build_backbone("cifar_resnet20", width=0.25)
    config = RegionConfig(channels=8, strides=(2, 4), layers=1, refined=40, hidden=16, count=30)
    return save_model(folder, RegionNetwork(backbone, config), ["object"], Preprocessing(32))
