# SPDX-License-Identifier: Apache-2.0
"""Every training preset makes a network that runs; random weights stand in for pretrained ones."""

from dataclasses import replace

import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.frozen_features import frozen_parts, split_frozen
from newfound_core.latent import from_source
from newfound_core.open_world.heads import HEADS, build_head
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.task_delta.layers import convert
from newfound_training.commands import find
from newfound_training.detector.train import build_network as build_region_network
from newfound_training.openworld.dataset import build_network, make_protocol
from newfound_training.openworld.options import make_setting, parse_values
from newfound_training.places.models import build_place_model
from newfound_training.running.options import make_options, preset_names, read_preset
from newfound_training.source import build_classifier

PRESETS = [
    (command, preset)
    for command in (
        "train-source",
        "train-places",
        "train-task",
        "train-openworld",
        "train-detector",
        "train-latent",
        "train-segmentation",
        "evaluate-segmentation",
    )
    for preset in preset_names(command)
]
THESIS_OPEN_WORLD = [p for p in preset_names("train-openworld") if p.startswith("thesis_")]


def options_of(command, preset):
    return make_options(find(command).options, read_preset(command, preset))


def source_model(options):
    return build_classifier(replace(options, weights="random"), 3)


def place_model(options):
    return build_place_model(replace(options, weights="random", remembered_variants=0), 3, 2)


def setting_of(options):
    return make_setting(options.method, options.method, parse_values(options.set))


def open_world_model(options):
    backbone = build_network(replace(options, weights="random", frozen_stages=0), 0)
    trunk, rest = split_frozen(backbone, options.frozen_stages)
    trunk.requires_grad_(False)
    setting = setting_of(options)
    setting.step_config(1, seed=0)
    setting.memory_config(options.memory_size)
    head = build_head(options.method, backbone.feature_dim, **setting.head)
    return OpenWorldModel(torch.nn.Sequential(trunk, rest), head, setting.embedding)


def region_model(options):
    return build_region_network(replace(options, weights="random"))


def segmentation_network(options):
    network = replace(options, weights="random").build(3)
    for part in frozen_parts(network.backbone, options.frozen_stages):
        part.requires_grad_(False)
    return network


def latent_model(options):
    of_source = options_of("train-source", options.source_preset)
    config = options.latent(options.source_domains, options.target_domains)
    model = from_source(source_model(of_source), config)
    for part in frozen_parts(model.backbone, options.frozen_stages):
        part.requires_grad_(False)
    return model


def task_model(options):
    backbone = build_backbone(options.backbone or "efficientnet_lite0")
    convert(backbone, replace(options.config(), variant="norm"), options.lr)  # masks: its own test
    return Classifier(backbone, 3)


BUILD = {
    "train-task": task_model,
    "train-source": source_model,
    "train-places": place_model,
    "train-openworld": open_world_model,
    "train-detector": region_model,
    "train-latent": latent_model,
    "train-segmentation": segmentation_network,
    "evaluate-segmentation": segmentation_network,
}


@pytest.mark.parametrize(("command", "preset"), PRESETS)
def test_the_network_of_a_preset_runs_and_has_something_to_train(command, preset):
    options = options_of(command, preset)
    model = BUILD[command](options).eval()
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained
    preset = getattr(options, "source_preset", None)  # which names the network of some
    size = options_of("train-source", preset).image_size if preset else options.image_size
    with torch.no_grad():
        assert model(torch.zeros(1, 3, size, size)) is not None


@pytest.mark.parametrize("command", ["train-source", "train-places"])
def test_of_the_thesiss_alexnet_the_fully_connected_layers_are_trained(command):
    model = BUILD[command](options_of(command, "thesis_alexnet"))
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    backbone = {name.split(".")[2] for name in trained if name.startswith("backbone.")}
    assert backbone == {"fc6", "norm6", "fc7", "norm7"}
    assert {name.split(".")[0] for name in trained} >= {"backbone", "classifier"}


@pytest.mark.parametrize("preset", THESIS_OPEN_WORLD)
def test_the_thesiss_open_world_presets_set_what_it_prints(preset):
    options = options_of("train-openworld", preset)
    assert preset.endswith(options.method)
    setting, config = setting_of(options), HEADS[options.method].config_type
    printed = config.as_printed()
    if options.method == "bdoc":  # the form of its distance that trains
        printed = replace(printed, distance="squared_summed", detach_variance=True)
    assert config(**setting.head) == printed
    assert not setting.embedding.normalize
    step = setting.step_config(0, seed=0)
    assert (step.momentum, step.weight_decay, step.memory_share) == (0.9, 1e-3, 0.4)
    assert setting.held_out_share == (0.2 if options.method == "bdoc" else 0)


@pytest.mark.parametrize(
    ("data", "classes", "steps"),
    [
        ("cifar100", 100, [20, 10, 10, 10]),
        ("rgbd_object", 51, [11, 5, 5, 5]),
        ("core50", 10, [2, 1, 1, 1]),
    ],
)
def test_the_thesiss_steps_fit_the_classes_of_its_data(data, classes, steps):
    options = options_of("train-openworld", f"thesis_{data}_bdoc")
    protocol = make_protocol(
        [str(number) for number in range(classes)],
        known=options.known_classes,
        initial=options.initial_classes,
        per_step=options.classes_per_step,
        order=0,
    )
    assert [len(step) for step in protocol.steps] == steps
    assert len(protocol.unknown) == classes - sum(steps)
