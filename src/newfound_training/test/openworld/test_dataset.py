# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
import torch

from newfound_core.errors import ConfigError, DataError
from newfound_core.frozen_features import cached_inputs, split_frozen
from newfound_core.preprocessing import Preprocessing
from newfound_training.openworld.dataset import (
    build_network,
    choice_classes,
    image_inputs,
    load_dataset,
    load_groups,
    make_protocol,
    reported_classes,
)
from newfound_training.openworld.options import OpenWorldOptions

CLASSES = [f"class{i:02d}" for i in range(40)]


def make(**changes):
    values = {"known": 20, "initial": 8, "per_step": 4, "order": 0} | changes
    return make_protocol(CLASSES, **values)


def test_classes_come_in_steps_and_the_rest_stays_unknown():
    protocol = make()
    assert [len(step) for step in protocol.steps] == [8, 4, 4, 4]
    assert len(protocol.unknown) == 20
    assert sorted([*protocol.known, *protocol.unknown]) == CLASSES


def test_fewer_unknown_classes_can_be_asked_for():
    assert make(unknown=5).unknown == make().unknown[:5]


def test_the_last_step_takes_what_is_left():
    assert [len(step) for step in make(known=11, initial=4, per_step=3).steps] == [4, 3, 3, 1]


def test_without_numbers_everything_is_learned_at_once():
    protocol = make(known=0, initial=0)
    assert len(protocol.steps) == 1
    assert protocol.unknown == ()


def test_an_order_is_the_same_every_time_and_differs_from_the_next():
    assert make(order=1) == make(order=1)
    assert make(order=1) != make(order=2)


def test_joint_training_learns_the_same_classes():
    protocol = make()
    assert protocol.joint().steps == (protocol.known,)
    assert protocol.joint().unknown == protocol.unknown


def test_choices_are_never_made_on_classes_that_are_reported():
    chosen, reported = choice_classes(CLASSES, 15), reported_classes(CLASSES, 15)
    assert len(chosen) == 15
    assert sorted(chosen + reported) == CLASSES
    assert choice_classes(CLASSES, 15) == chosen


@pytest.mark.parametrize(
    "changes", [{"known": 41}, {"initial": 21}, {"per_step": 0}, {"unknown": 21}]
)
def test_impossible_numbers_are_refused(changes):
    with pytest.raises(ConfigError):
        make(**changes)


def test_more_choice_classes_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="41 choice classes"):
        choice_classes(CLASSES, 41)


CPU = torch.device("cpu")


def test_images_are_divided_by_split_and_class(small_options):
    groups = load_groups(OpenWorldOptions(**small_options, images_per_class=5))
    assert {len(members) for members in groups.training.values()} == {5}
    assert {len(members) for members in groups.test.values()} == {6}
    assert groups.name(groups.test["red"][0]) == "test/red/00.png"


def test_without_a_test_split_a_share_of_every_class_is_held_out(small_options):
    groups = load_groups(OpenWorldOptions(**small_options, test_split=(), test_share=0.25))
    for label, members in groups.training.items():
        assert not set(members) & set(groups.test[label])
        assert (len(members), len(groups.test[label])) == (9, 3)
        assert all(groups.name(i).startswith("train/") for i in groups.test[label])


def test_without_any_named_split_all_images_are_divided(tree, small_options):
    options = small_options | {"data": str(tree), "test_split": ("",), "test_share": 0.25}
    groups = load_groups(OpenWorldOptions(**options))
    assert {name: len(members) for name, members in groups.test.items()} == {
        "blue": 4, "green": 4, "red": 4
    }  # fmt: skip
    with pytest.raises(DataError, match="no domain 'dusk'"):
        load_groups(OpenWorldOptions(**options, train_split=("dusk",)))


def test_several_splits_may_be_learned_from_and_tested_with(tmp_path, make_image, small_options):
    for session in range(1, 6):
        for thing in (1, 6):
            name = f"C_{session:02d}_{thing:02d}_000.png"
            make_image(tmp_path / f"s{session}" / f"o{thing}" / name, (9, 9, 9), session)
    options = small_options | {"data": str(tmp_path), "layout": "core50_categories"}
    splits = {"train_split": ("s01", "s02", "s04"), "test_split": ("s03", "s05")}
    groups = load_groups(OpenWorldOptions(**options, **splits))
    for found, names in ((groups.training, splits["train_split"]), (groups.test, ("s03", "s05"))):
        sessions = [groups.name(i).split("/")[0] for i in found["mobile_phone"]]
        assert sessions == [name.replace("0", "") for name in names]


def test_a_class_with_nothing_to_test_with_is_named(tmp_path, make_image, small_options):
    for instance in ("cup/cup_1", "cup/cup_2", "pen/pen_1"):
        for frame in range(4):
            make_image(tmp_path / instance / f"{frame}_crop.png", (9, 9, 9), frame)
    options = {"data": str(tmp_path), "layout": "rgbd_object", "test_split": ()}
    with pytest.raises(DataError, match="no images of pen to test with"):
        load_groups(OpenWorldOptions(**small_options | options))


def test_a_split_that_is_not_there_is_named(small_options):
    with pytest.raises(DataError, match="no domain 'validation'"):
        load_groups(OpenWorldOptions(**small_options, test_split=("validation",)))


def test_trunk_and_rest_are_the_network(small_options):
    backbone = build_network(OpenWorldOptions(**small_options), 0).eval()
    images = torch.randn(2, 3, 16, 16)
    for frozen in range(5):
        trunk, rest = split_frozen(backbone, frozen)
        assert torch.equal(rest(trunk(images)), backbone(images))
    with pytest.raises(ConfigError, match="at most 4 of them"):
        split_frozen(backbone, 5)


def test_behind_a_frozen_trunk_samples_give_the_same_features(small_options, tmp_path):
    options = OpenWorldOptions(**small_options)
    backbone = build_network(options, 0).eval()
    images = load_dataset(options, load_groups(options), ["red"], CPU, backbone=backbone)
    weights = tmp_path / "weights.safetensors"
    from safetensors.torch import save_file

    save_file(backbone.state_dict(), weights)
    frozen = OpenWorldOptions(**small_options | {"frozen_stages": 2, "weights": str(weights)})
    features = load_dataset(frozen, load_groups(frozen), ["red"], CPU, backbone=backbone)
    plain = images.network.eval()(images.inputs.batch(images.test["red"]))
    found = features.network.eval()(features.inputs.batch(features.test["red"]))
    torch.testing.assert_close(found, plain, rtol=5e-3, atol=5e-3)  # half precision
    assert [s.source for s in features.samples(["red"])] == [
        s.source for s in images.samples(["red"])
    ]


def test_training_draws_among_the_variants_of_a_map():
    features = np.arange(3, dtype=np.float16)[:, None, None, None]
    inputs, generator = cached_inputs(), np.random.default_rng(0)
    assert float(inputs.prepare(features)) == 0
    assert {float(inputs.vary_training(features, generator)) for _ in range(40)} == {0, 1, 2}
    assert float(inputs.vary_held_out(features, generator)) == 1
    assert float(inputs.vary_held_out(features[:1], generator)) == 0  # it has no variants


def test_held_out_images_keep_their_place_and_change_their_colour():
    image = np.zeros((16, 16, 3), np.uint8)
    image[:8] = 200
    inputs = image_inputs(Preprocessing(16))
    varied = inputs.vary_held_out(image, np.random.default_rng(0))
    assert not torch.equal(varied, inputs.prepare(image))
    assert varied[:, :8].std(dim=(1, 2)).max() == 0  # each half is still of one colour
    assert varied[:, 8:].std(dim=(1, 2)).max() == 0


def test_random_weights_follow_from_the_seed(small_options):
    options = OpenWorldOptions(**small_options)
    first, same, other = (build_network(options, seed).stem[0].weight for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_classes_that_are_never_learned_are_only_tested_with(small_options):
    options = OpenWorldOptions(**small_options)
    backbone = build_network(options, 0)
    dataset = load_dataset(
        options, load_groups(options), ["red"], CPU, backbone=backbone, never_learned=["blue"]
    )
    assert list(dataset.training) == ["red"]
    assert list(dataset.test) == ["red", "blue"]


def test_a_network_can_be_cut_short(small_options):
    whole = build_network(OpenWorldOptions(**small_options), 0)
    short = build_network(OpenWorldOptions(**small_options, stages=2), 0)
    assert (len(whole.stages), len(short.stages)) == (3, 2)
    assert short.options["stages"] == 2  # a checkpoint builds the same one again
