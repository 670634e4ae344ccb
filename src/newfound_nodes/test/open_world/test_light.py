# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch

from newfound_core.detection.light_shift import LightShiftConfig
from newfound_core.knowledge.contents import (
    from_checkpoint,
    read_knowledge,
    without_class,
    write_learned_in,
)
from newfound_core.knowledge.knowledge_base import KnowledgeBase
from newfound_core.models import load_model, save_model
from newfound_core.open_world.memory_store import load_memory, save_memory
from newfound_core.testing import tiny_open_world
from newfound_nodes.open_world.light import LightFollower, decode_shift, encode_shift
from newfound_runtime.testing import eventually

NEW = ("lemon", "plum")


def with_new_classes(checkpoint, weights=0.0):
    """Write a version that has learned two more classes; `weights` changes the network."""

    def write(folder):
        loaded = load_model(checkpoint)
        head = loaded.model.head
        head.extend(NEW)
        width = head.dimension
        head.means.update(torch.eye(2, width) * 10, torch.tensor([3, 4]))
        head.rejection_threshold = torch.full((5,), 1e6)  # whatever is nearest to them
        with torch.no_grad():
            next(loaded.model.backbone.parameters()).add_(weights)
        memory = load_memory(checkpoint / "memory")
        save_model(
            folder,
            loaded.model,
            head.labels,
            loaded.metadata.preprocessing,
            write_memory=lambda place: save_memory(memory, place),
        )
        write_learned_in(folder, {"plum": torch.full((width,), 0.01)})
        return head.labels

    return write


@pytest.fixture
def base(tmp_path):
    """A knowledge base whose second version has learned two classes, one in a light of its own."""
    checkpoint = tiny_open_world(tmp_path / "shipped")
    base = KnowledgeBase(tmp_path / "base", read_knowledge)
    base.open(from_checkpoint(checkpoint))
    base.switch(base.add(with_new_classes(checkpoint), "learned"))
    yield base
    base.close()


@pytest.fixture
def follow(base):
    made = []

    def make(knowledge=None, **config):
        knowledge = knowledge or read_knowledge(base.folder(base.current))
        follower = LightFollower(base.root, knowledge, LightShiftConfig(**config))
        follower.switch(True)
        made.append(follower)
        return knowledge, follower

    yield make
    for follower in made:
        follower.close()


@dataclass
class Seen:
    embedding: np.ndarray
    length: float


def show(follower, knowledge, light, count=30):
    """Frames with a view of both learned classes in a light; wait until they were learned from."""
    rng = np.random.default_rng(0)
    means = knowledge.model.head.means.value[3:].numpy()
    for _ in range(count):
        views = means + light + 0.3 * rng.normal(size=means.shape)
        lengths = np.linalg.norm(views, axis=1)
        found = [Seen(v / n, n) for v, n in zip(views.astype(np.float32), lengths, strict=True)]
        follower.observe(knowledge, found)
        eventually(lambda: follower._pending is None or follower._pending.done())


def means(knowledge):
    return knowledge.model.head.means.value


def test_a_version_tells_which_classes_were_learned_here_and_in_which_light(base, tmp_path):
    knowledge = read_knowledge(base.folder(2))
    assert set(knowledge.learned_in) == {"lemon", "plum"}
    assert not knowledge.learned_in["lemon"].any()
    assert knowledge.learned_in["plum"][0] == pytest.approx(0.01)
    assert read_knowledge(base.folder(1)).learned_in == {}
    version = base.add(without_class(base.folder(2), "lemon"), "forgot")
    after = read_knowledge(base.folder(version)).learned_in
    assert after["plum"][0] == pytest.approx(0.01)
    assert set(after) == {"plum"}


def test_learned_classes_follow_and_shipped_ones_stay(follow):
    knowledge, follower = follow()
    light = np.full(means(knowledge).shape[1], 0.05)
    show(follower, knowledge, light)
    served = follower.serve(knowledge)
    moved = (means(served) - means(knowledge)).numpy()
    assert not moved[:3].any()
    # Of the plum, whose own light is taken off, by as much less.
    np.testing.assert_allclose(moved[3] - moved[4], 0.01, atol=1e-5)
    assert follower.report().state == "adapting"
    assert follower.report().status.classes == 2
    follower.switch(False)
    assert follower.serve(knowledge) is knowledge
    assert follower.report().state == "off"


def test_the_shift_survives_a_restart_and_is_given_up_with_another_network(base, follow, tmp_path):
    knowledge, follower = follow()
    show(follower, knowledge, np.full(means(knowledge).shape[1], 0.05))
    before = follower.shift()
    assert before.norm() > 0.1
    follower.close()
    again, later = follow()
    assert torch.equal(later.shift(), before)
    assert not torch.equal(means(later.serve(again)), means(again))
    write = partial(with_new_classes(base.folder(1), weights=0.01))
    retrained = read_knowledge(base.folder(base.add(write, "trained")))
    later.use(retrained)
    assert not later.shift().any()


def test_a_damaged_state_is_ignored(base, follow):
    (base.root / "light.safetensors").write_bytes(b"damaged")
    _, follower = follow()
    assert not follower.shift().any()


def test_frozen_or_reset(follow):
    knowledge, follower = follow()
    light = np.full(means(knowledge).shape[1], 0.05)
    show(follower, knowledge, light)
    before = follower.shift()
    follower.freeze(True)
    show(follower, knowledge, -light)
    assert torch.equal(follower.shift(), before)
    assert follower.report().state == "frozen"
    follower.reset()
    assert torch.equal(means(follower.serve(knowledge)), means(knowledge) - offsets(knowledge))


def offsets(knowledge):
    rows = torch.zeros_like(means(knowledge))
    rows[4] = knowledge.learned_in["plum"]
    return rows


def test_a_shift_is_the_same_after_it_was_a_text(follow):
    shift = torch.randn(16)
    assert torch.equal(decode_shift(encode_shift(shift), 16), shift)
    assert not decode_shift("", 16).any()
    assert not decode_shift("not base 64!", 16).any()
    assert not decode_shift(encode_shift(shift), 8).any(), "of another network"
