# SPDX-License-Identifier: Apache-2.0

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.errors import CheckpointError, ConfigError
from newfound_core.latent import LatentClassifier, LatentConfig
from newfound_core.metadata import METHODS, Provenance
from newfound_core.models import BUILDERS, load_model, save_model, write_model_card
from newfound_core.open_world.heads import build_head
from newfound_core.open_world.model import EmbeddingConfig, OpenWorldModel
from newfound_core.places import BsfClassifier, PlaceClassifier, WbnClassifier, WbnConfig
from newfound_core.preprocessing import Preprocessing

LABELS = ("office", "corridor", "kitchen")
DOMAINS = ("freiburg", "ljubljana")
PREPROCESSING = Preprocessing(size=32)


def network(name="cifar_resnet20", **options):
    return build_backbone(name, **({"width": 0.5} if name == "cifar_resnet20" else {}) | options)


def open_world(method):
    backbone = network()
    head = build_head(method, backbone.feature_dim)
    head.extend(LABELS)
    model = OpenWorldModel(backbone, head, EmbeddingConfig(scale=3.0)).eval()
    images, classes = torch.randn(30, 3, 32, 32), torch.arange(30) % 3
    with torch.no_grad():
        batch = (model(images), classes)
    head.refit([batch], features_changed=True)
    head.fit_thresholds(*batch)
    head.end_step()
    return model


MAKE = {
    "source": lambda: Classifier(network(), 3, output_norm=True),
    "source that rejects": lambda: Classifier(network(), 3, rejection={"evidence": "distance"}),
    "bn": lambda: PlaceClassifier(network(), 3),
    "bn that rejects": lambda: rejecting(PlaceClassifier(network(), 3)),
    "wbn": lambda: WbnClassifier(network(), 3, 2, WbnConfig(assignment_temperature=3.0)),
    "wbn latent": lambda: WbnClassifier(network(), 3, 2, WbnConfig(latent=True)),
    "wbn on the default": lambda: WbnClassifier(network("efficientnet_lite0"), 3, 2),
    "bsf": lambda: BsfClassifier(network(), 3, 2),
    "mda": lambda: LatentClassifier(network(), 3, LatentConfig(0, 2), output_norm=True),
    "mda by centres": lambda: by_centres(
        LatentClassifier(
            network(),
            3,
            LatentConfig(0, 2, assignment="centres"),
            rejection={"evidence": "energy"},
        )
    ),
    "mda with its source": lambda: LatentClassifier(network(), 3, LatentConfig(1, 1)),
    **{m: lambda m=m: open_world(m) for m in ("ncm", "nno", "deepnno", "bdoc", "ridge_lda")},
}


def by_centres(model):
    model.branches["target"].centres.normal_()
    return model


def rejecting(model):
    model.add_rejection({"evidence": "energy", "directions": 4})
    model.source_confidence = 0.75
    return model


def lively(model):
    """A model in whose output every tensor takes part: also statistics are random."""
    for module in model.modules():
        if hasattr(module, "running_var"):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model.eval()


def save(path, model, **options):
    domains = DOMAINS if hasattr(model, "domains") else ()
    return save_model(path, model, LABELS, PREPROCESSING, domains=domains, **options)


def outputs(model, images):
    with torch.no_grad():
        output = model(images)
        found = list(output) if isinstance(output, tuple) else [output]
        if isinstance(model, OpenWorldModel):
            found += list(vars(model.decide(images)).values())
    return found


@pytest.mark.parametrize("name", MAKE)
def test_a_model_comes_back_as_the_same_function(name, tmp_path):
    torch.manual_seed(0)
    model = lively(MAKE[name]())
    save(tmp_path / "model", model)
    loaded = load_model(tmp_path / "model", method=name.split()[0])

    assert loaded.labels == LABELS
    assert not loaded.model.training
    images = torch.randn(4, 3, 32, 32)
    for here, there in zip(outputs(model, images), outputs(loaded.model, images), strict=True):
        assert torch.equal(here, there)


def test_every_method_has_a_builder_and_a_round_trip():
    # Those of the others are among their own tests; a delta is no model of its own.
    others = {"adagraph", "cumix", "delta", "regions", "segmentation"}
    assert METHODS.keys() == BUILDERS.keys() == {name.split()[0] for name in MAKE} | others


def test_images_are_prepared_as_the_checkpoint_says(tmp_path):
    save(tmp_path / "model", MAKE["source"]())
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    prepared = load_model(tmp_path / "model").prepare([image, image])
    assert torch.equal(prepared[1], PREPROCESSING(image))


def test_the_memory_travels_with_an_open_world_model(tmp_path):
    save(
        tmp_path / "m", MAKE["bdoc"](), write_memory=lambda f: (f / "index.json").write_text("{}")
    )
    loaded = load_model(tmp_path / "m")
    assert (loaded.directory / "memory" / "index.json").exists()


def edited(path, **changes):
    file = path / "checkpoint.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("source", {"backbone": {"name": "cifar_resnet20", "options": {}}}, "has shape"),
        ("source", {"backbone": {"name": "cifar_resnet32", "options": {"width": 0.5}}}, "missing"),
        ("source", {"backbone": {"name": "resnet19", "options": {}}}, "no backbone is called"),
        ("source", {"backbone": {"name": "cifar_resnet20", "options": {"w": 1}}}, "cannot be"),
        ("source", {"backbone": {"name": "resnet18", "options": {"weights": "a"}}}, "is opened"),
        ("source", {"backbone": {"name": "resnet18", "options": {"pretrained": 1}}}, "their own"),
        ("source", {"options": {"colour": 1}}, "no model can be built"),
        ("source", {"options": {"output_norm": False}}, r"unexpected norm\."),
        ("source", {"method": "bn", "options": {}}, r"unexpected norm\."),
        ("wbn", {"domains": ["one"]}, "has shape"),
        ("wbn", {"domains": []}, "no model can be built"),
        ("wbn", {"options": {"assignment_temperature": 0}}, "assignment_temperature"),
        ("bdoc", {"labels": ["office", "corridor", "garden"]}, "the labels differ"),
        ("bdoc", {"method": "nno"}, "'bdoc'"),
        ("bdoc", {"options": {}}, "not the options of an open-world model"),
    ],
)
def test_metadata_that_do_not_fit_the_tensors_are_named(name, changes, message, tmp_path):
    save(tmp_path / "model", MAKE[name]())
    edited(tmp_path / "model", **changes)
    with pytest.raises(CheckpointError, match=message) as error:
        load_model(tmp_path / "model")
    assert str(tmp_path / "model") in str(error.value)


def test_a_device_that_is_not_there_is_an_error_and_no_fallback(tmp_path):
    save(tmp_path / "model", MAKE["source"]())
    for device in ("cuda:77", "warp"):
        with pytest.raises(ConfigError, match=device):
            load_model(tmp_path / "model", device=device)


def test_domains_must_be_named(tmp_path):
    with pytest.raises(CheckpointError, match="2 domains, but 0 are named"):
        save_model(tmp_path / "model", MAKE["wbn"](), LABELS, PREPROCESSING)


def test_what_cannot_be_built_again_is_not_saved(tmp_path):
    with pytest.raises(CheckpointError, match="Linear is not a model"):
        save_model(tmp_path / "model", nn.Linear(2, 3), LABELS, PREPROCESSING)
    nameless = network()
    nameless.name = ""
    with pytest.raises(CheckpointError, match="build_backbone"):
        save(tmp_path / "model", Classifier(nameless, 3))


def test_the_default_network_needs_no_slow_library():
    """A node that starts pays for what it uses: timm and torchvision take longer than torch."""
    code = (
        "import sys; from newfound_core.backbones import build_backbone; "
        "import newfound_core.inference, newfound_core.onda; "
        "build_backbone(); build_backbone('cifar_resnet20'); "
        "print(sorted({'timm', 'torchvision', 'torch._dynamo'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_card_tells_classes_command_and_measurements(tmp_path):
    model = Classifier(build_backbone("cifar_resnet20"), 2)
    made = Provenance.now("the command", 7, "the data", {"accuracy": 0.98765})
    folder = save_model(
        tmp_path / "model", model, ["ant", "bee"], Preprocessing(32), provenance=made
    )
    write_model_card(folder, "Insects", "Tells ants from bees.", {"images": 12})
    text = (folder / "README.md").read_text()
    for part in ("# Insects", "ant, bee", "the command", "seed 7", "0.9877", "| images | 12 |"):
        assert part in text
    load_model(folder)  # the card does not make the checkpoint unreadable
