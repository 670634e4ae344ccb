# SPDX-License-Identifier: Apache-2.0
"""Masks in real networks; deltas taken from them, stored and applied."""

import copy
import json

import pytest
import torch
from torch.nn import functional

from newfound_core.backbones import build_backbone
from newfound_core.checkpoint import load_checkpoint, save_checkpoint
from newfound_core.classifier import Classifier
from newfound_core.errors import CheckpointError
from newfound_core.metadata import BackboneSpec
from newfound_core.models import load_model, save_model
from newfound_core.places import PlaceClassifier
from newfound_core.preprocessing import Preprocessing
from newfound_core.task_delta.checkpoint import Base, load_base, save_delta
from newfound_core.task_delta.config import VARIANTS, TaskDeltaConfig
from newfound_core.task_delta.delta import apply, extract, trunk_digest
from newfound_core.task_delta.layers import (
    AffineMask,
    base_tensors,
    convert,
    mask_statistics,
    masks_of,
    set_training_mode,
)

LABELS = ("mug", "hammer", "banana")
NETWORKS = {
    "cifar_resnet8": {"width": 0.5},
    "efficientnet_lite0": {"stages": 3},  # depthwise
    "timm/test_convnext": {},  # fully connected, no batch normalisation
    "timm/test_efficientnet": {},
}


def network(name="cifar_resnet8", seed=0):
    torch.manual_seed(seed)
    return build_backbone(name, **NETWORKS[name])


def trained(model, config, lr=1e-2, steps=4, size=32):
    """A few steps on noise: all that a task may change changes."""
    torch.manual_seed(1)
    convert(model.backbone, config, lr)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr)
    for _ in range(steps):
        set_training_mode(model, own_statistics=config.own_statistics)
        output = model(torch.randn(4, 3, size, size))
        logits = output.logits if hasattr(output, "logits") else output
        optimizer.zero_grad()
        functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0])).backward()
        optimizer.step()
    return model.eval()


@pytest.fixture
def base_folder(tmp_path):
    model = Classifier(network(), 3)
    return save_model(tmp_path / "base", model, LABELS, Preprocessing(size=32))


def make_task(base_folder, folder, variant="full", model=Classifier, **options):
    config = TaskDeltaConfig(variant, **options)
    base = load_base(base_folder)
    backbone = network()
    backbone.load_state_dict(base.tensors)
    torch.manual_seed(7)
    task = trained(model(backbone, 3), config)
    prepared = Preprocessing(size=32)
    save_delta(folder, task, config, base, labels=LABELS, preprocessing=prepared)
    return task


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("statistics", ["base", "task"])
def test_a_stored_task_answers_as_the_trained_one_to_the_last_bit(
    variant, statistics, base_folder, tmp_path
):
    before = load_base(base_folder).digest
    task = make_task(base_folder, tmp_path / "task", variant, norm_statistics=statistics)
    loaded = load_model(tmp_path / "task", "source", base=base_folder)
    images = torch.randn(5, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(loaded.model(images), task(images))
    assert not any(masks_of(loaded.model.backbone))  # a plain network
    assert trunk_digest(base_tensors(task.backbone)) == before or VARIANTS[variant].norm
    weights = base_tensors(task.backbone)
    for name, tensor in load_model(base_folder).model.backbone.state_dict().items():
        if tensor.ndim >= 2:
            assert torch.equal(weights[name], tensor), name


@pytest.mark.parametrize("name", NETWORKS)
def test_masks_reach_every_layer_of_every_kind_of_network(name):
    backbone = network(name)
    before = {k: v.clone() for k, v in backbone.state_dict().items()}
    model = trained(Classifier(copy.deepcopy(backbone), 3), TaskDeltaConfig(), size=64)
    weights = {k.removesuffix(".weight") for k, v in before.items() if v.ndim >= 2}
    assert {layer for layer, _ in masks_of(model.backbone)} == weights
    after = base_tensors(model.backbone)
    assert after.keys() == before.keys()
    assert all(torch.equal(after[k], v) for k, v in before.items() if v.ndim >= 2)
    assert 0 < mask_statistics(model.backbone)["bits_set"] < 1
    backbone.load_state_dict(apply(before, extract(model.backbone, TaskDeltaConfig())))
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(backbone.eval()(images), model.backbone(images))


def test_a_converted_network_computes_what_it_did():
    backbone, images = network().eval(), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        before = backbone(images)
        assert torch.equal(convert(backbone, TaskDeltaConfig(), 1e-3)(images), before)


def test_frozen_normalisation_keeps_its_statistics():
    model = Classifier(network(), 3)
    before = {k: v.clone() for k, v in model.backbone.state_dict().items()}
    config = TaskDeltaConfig("piggyback", mask_margin=(1, 2), norm_statistics="task")
    trained(model, config)
    after = base_tensors(model.backbone)
    assert all(torch.equal(after[k], v) for k, v in before.items())


@pytest.mark.parametrize(("statistics", "moved"), [("base", False), ("task", True)])
def test_normalisation_moves_its_statistics_only_if_they_are_the_tasks(statistics, moved):
    model = Classifier(network(), 3)
    before = {k: v.clone() for k, v in model.backbone.state_dict().items()}
    trained(model, TaskDeltaConfig(norm_statistics=statistics))
    after = base_tensors(model.backbone)
    for name, tensor in before.items():
        if name.endswith("running_mean"):
            assert torch.equal(after[name], tensor) != moved
            weight = name.replace("running_mean", "weight")
            assert not torch.equal(after[weight], before[weight])


def test_only_what_a_variant_learns_moves():
    model = trained(Classifier(network(), 3), TaskDeltaConfig("simple"))
    for _, mask in masks_of(model.backbone):
        k0, k1, k2, k3 = mask.k.tolist()
        assert (k0, k3) == (1, 0)
        assert k1
        assert k2


def test_scale_is_learned_where_no_normalisation_follows():
    backbone = convert(network("timm/test_convnext"), TaskDeltaConfig(), 1e-3)
    assert all(mask.learned.all() for _, mask in masks_of(backbone))
    assert not any(m.learned[0] for _, m in masks_of(convert(network(), TaskDeltaConfig(), 1e-3)))


def test_dead_channels_stay_as_they_are_if_asked(base_folder, tmp_path):
    backbone = network()
    with torch.no_grad():
        backbone.stem.conv.weight[1] = 0
    tensors = {k: v.clone() for k, v in backbone.state_dict().items()}
    for keep, untouched in ((True, True), (False, False)):
        config = TaskDeltaConfig(keep_dead=keep)
        model = trained(Classifier(copy.deepcopy(backbone), 3), config)
        applied = apply(tensors, extract(model.backbone, config))
        assert bool((applied["stem.conv.weight"][1] == 0).all()) == untouched
        assert torch.equal(applied["stem.conv.weight"], model.backbone.stem.conv.weight)


def test_relative_units_end_up_in_the_stored_k():
    config = TaskDeltaConfig(unit="relative")
    model = trained(Classifier(network(), 3), config)
    delta = extract(model.backbone, config)
    layer, mask = min(masks_of(model.backbone), key=lambda named: named[0])
    weight = base_tensors(model.backbone)[f"{layer}.weight"]
    torch.testing.assert_close(delta.k[1, 0], mask.k[1] * weight.std())


@pytest.mark.parametrize("weight", [torch.ones(1, 1, 1, 1), torch.zeros(4, 3)])
def test_weights_that_are_all_alike_have_the_unit_one(weight):
    config = TaskDeltaConfig(unit="relative")
    mask = AffineMask(weight, config, 1e-3, config.rules.learned)
    assert mask.unit.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("statistics", "numbers", "kib"), [("base", 2, 571), ("task", 4, 735)])
def test_the_size_is_one_bit_per_weight_and_some_numbers_per_layer_and_channel(
    statistics, numbers, kib, tmp_path
):
    backbone = build_backbone("efficientnet_lite0")
    tensors = backbone.state_dict()
    weights = sum(t.numel() for t in tensors.values() if t.ndim >= 2)
    layers = sum(t.ndim >= 2 for t in tensors.values())
    channels = sum(t.numel() for name, t in tensors.items() if name.endswith("running_mean"))
    assert (layers, weights, channels) == (49, 3_328_992, 21_008)
    formula = weights / 8 + layers * 4 * 4 + channels * numbers * 4
    config = TaskDeltaConfig(norm_statistics=statistics)
    base = load_base_of(backbone)
    model = Classifier(convert(backbone, config, 1e-3), 7)
    head = 4 * 7 * 1281
    folder = save_delta(
        tmp_path / "t",
        model,
        config,
        base,
        labels=list("abcdefg"),
        preprocessing=Preprocessing(),
    )
    assert (folder / "model.safetensors").stat().st_size == pytest.approx(formula + head, rel=0.01)
    delta = extract(backbone, config)
    assert delta.size_bytes == pytest.approx(formula, rel=0.001)
    assert delta.size_bytes / 1024 == pytest.approx(kib, rel=0.01)


def load_base_of(backbone):
    tensors = backbone.state_dict()
    spec = BackboneSpec(backbone.name, backbone.options)
    return Base("random", spec, tensors, trunk_digest(tensors))


def test_a_places_model_can_be_a_task(base_folder, tmp_path):
    task = make_task(base_folder, tmp_path / "task", model=PlaceClassifier)
    loaded = load_model(tmp_path / "task", ("bn", "wbn"), base=base_folder)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(loaded.model(images).logits, task(images).logits)
    with pytest.raises(CheckpointError, match="is of method 'bn'"):
        load_model(tmp_path / "task", "source", base=base_folder)


def test_another_base_is_refused_though_it_fits(base_folder, tmp_path):
    make_task(base_folder, tmp_path / "task")
    other = Classifier(network(seed=1), 3)
    save_model(tmp_path / "other", other, LABELS, Preprocessing(size=32))
    with pytest.raises(CheckpointError, match="delta of another network"):
        load_model(tmp_path / "task", base=tmp_path / "other")
    with pytest.raises(CheckpointError, match="give it as `base`"):
        load_model(tmp_path / "task")
    with pytest.raises(CheckpointError, match="itself a delta"):
        load_model(tmp_path / "task", base=tmp_path / "task")
    with pytest.raises(CheckpointError, match="missing does not exist: the base must be"):
        load_model(tmp_path / "task", base=tmp_path / "missing")


def test_the_same_network_in_another_file_is_the_same_base(base_folder, tmp_path):
    make_task(base_folder, tmp_path / "task")
    trunk = load_model(base_folder).model.backbone
    places = PlaceClassifier(trunk, 2)
    save_model(tmp_path / "places", places, ("office", "kitchen"), Preprocessing(size=64))
    assert load_model(tmp_path / "task", base=tmp_path / "places").labels == LABELS


def without(name):
    return lambda tensors: {k: v for k, v in tensors.items() if k != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("k"), "masks without k"),
        (without("masks"), "not those of the variant full"),
        (lambda t: t | {"masks": t["masks"][1:]}, "do not hold a bit for each"),
        (lambda t: t | {"masks": t["masks"].float()}, "do not hold a bit for each"),
        (lambda t: t | {"other": torch.zeros(1)}, "no tensor other"),
        (lambda t: t | {"head.backbone.stem.conv.weight": torch.zeros(1)}, "no tensor head.backb"),
        (lambda t: t | {"k": t["k"][:, 1:]}, "k has shape"),
        (lambda t: t | {"bn": t["bn"][:, 1:]}, "bn has shape"),
        (without("bn"), "not those of the variant full"),
        (lambda t: t | {"head.classifier.bias": torch.zeros(2)}, "has shape"),
        (without("head.classifier.weight"), "head.classifier.weight"),
    ],
)
def test_a_delta_that_does_not_fit_is_refused(change, message, base_folder, tmp_path):
    make_task(base_folder, tmp_path / "task")
    whole = load_checkpoint(tmp_path / "task")
    folder = tmp_path / "changed"

    def use():
        save_checkpoint(folder, whole.metadata, change(whole.tensors))
        load_model(folder, base=base_folder)

    with pytest.raises(CheckpointError, match=message):
        use()


def test_edited_options_are_refused(base_folder, tmp_path):
    make_task(base_folder, tmp_path / "task")
    path = tmp_path / "task" / "checkpoint.json"
    values = json.loads(path.read_text())
    for name, value in (("method", "wbn"), ("keep_dead", "no"), ("more", 1)):
        changed = values | {"options": values["options"] | {name: value}}
        path.write_text(json.dumps(changed))
        with pytest.raises(CheckpointError, match="not as they were written"):
            load_model(tmp_path / "task", base=base_folder)
