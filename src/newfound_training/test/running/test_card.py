# SPDX-License-Identifier: Apache-2.0
from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.metadata import Provenance
from newfound_core.models import load_model, save_model
from newfound_core.preprocessing import Preprocessing
from newfound_training.running.card import write_model_card


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
