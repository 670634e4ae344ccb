# SPDX-License-Identifier: Apache-2.0
import pytest
import torch

from newfound_core.backbones import build_backbone
from newfound_core.classifier import Classifier
from newfound_core.errors import CheckpointError, DataError
from newfound_core.knowledge.contents import from_checkpoint, read_knowledge, without_class
from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.models import save_model
from newfound_core.open_world.memory_store import load_memory
from newfound_core.preprocessing import Preprocessing
from newfound_core.testing import tiny_blank


@pytest.fixture(params=["bdoc", "deepnno"])
def checkpoint(request, make_checkpoint):
    return make_checkpoint(request.param)


def test_a_copy_of_a_checkpoint_decides_as_the_original(checkpoint, tmp_path):
    (tmp_path / "copy").mkdir()
    assert from_checkpoint(checkpoint)(tmp_path / "copy") == ("red", "green", "blue")
    original, copy = read_knowledge(checkpoint), read_knowledge(tmp_path / "copy")
    images = torch.rand(4, 3, 16, 16)
    assert torch.equal(original.model.decide(images).distance, copy.model.decide(images).distance)
    assert copy.exemplars == {"red": 5, "green": 5, "blue": 5}
    assert (copy.memory_limit, copy.can_learn) == (30, True)


def test_a_forgotten_class_is_gone_and_the_others_stay_as_they_were(checkpoint, tmp_path):
    assert without_class(checkpoint, "green")(tmp_path / "less") == ["red", "blue"]
    before, after = read_knowledge(checkpoint).model, read_knowledge(tmp_path / "less").model
    features = before.head.means.value
    kept = before.head.distances(features)[:, [0, 2]]
    torch.testing.assert_close(after.head.distances(features), kept, atol=1e-4, rtol=1e-4)
    assert torch.equal(after.head.rejection_threshold, before.head.rejection_threshold[[0, 2]])
    assert load_memory(tmp_path / "less" / "memory").labels == ["red", "blue"]


def test_the_last_class_cannot_be_forgotten(make_checkpoint, tmp_path):
    alone = make_checkpoint("deepnno", labels=("red",))
    with pytest.raises(DataError, match="only class"):
        without_class(alone, "red")(tmp_path / "none")


def test_without_a_memory_it_can_be_used_but_not_learn(make_checkpoint, tmp_path):
    knowledge = read_knowledge(make_checkpoint("bdoc", memory=False))
    assert (knowledge.can_learn, knowledge.exemplars) == (False, {})


def test_a_damaged_image_of_the_memory_is_found(make_checkpoint):
    folder = make_checkpoint("bdoc")
    image = next((folder / "memory" / "images").iterdir())
    image.write_bytes(image.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="damaged"):
        read_knowledge(folder)


def test_a_checkpoint_of_another_method_is_refused(tmp_path):
    backbone = build_backbone("cifar_resnet20", width=0.25)
    save_model(tmp_path / "source", Classifier(backbone, 1), ["red"], Preprocessing(16))
    with pytest.raises(CheckpointError, match="of method 'source'"):
        read_knowledge(tmp_path / "source")


def test_a_knowledge_base_forgets_and_restores(checkpoint, tmp_path):
    base = KnowledgeBase(tmp_path / "base", read_knowledge)
    base.open(from_checkpoint(checkpoint))
    forgotten = base.add(without_class(base.folder(1), "red"), "forgot 'red'")
    assert base.switch(forgotten).labels == ("green", "blue")
    assert base.switch(base.copy(1)).labels == ("red", "green", "blue")
    assert [base.note(v).classes["blue"].since_version for v in base.versions()] == [1, 1, 1]
    base.close()


def test_a_model_with_a_background_can_be_left_without_a_class(tmp_path):
    blank = tiny_blank(tmp_path / "blank")
    knowledge = read_knowledge(blank)
    assert (knowledge.labels, knowledge.can_learn) == ((), True)
    (tmp_path / "copy").mkdir()
    assert from_checkpoint(blank)(tmp_path / "copy") == ()
