# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.detection.same_object import ObjectIndex, Others, View, relations

NOW = View(int(100e9), "camera", 640, 480)
HERE, PART, FAR = (100, 100, 200, 200), (110, 110, 150, 190), (400, 100, 500, 200)


def unit(*values):
    row = np.zeros(5, np.float32)
    row[: len(values)] = values
    return row / np.linalg.norm(row)


@pytest.fixture
def index():
    made = ObjectIndex(same=0.85, same_place=0.65, seconds=5.0)
    made.place("u1", HERE, NOW)
    made.follow("u1", unit(1))
    return made


def found(index, embedding, box=HERE, view=NOW, others=None):
    return list(index.find(embedding, np.array(box, np.float32), view, others or Others()))


def at(cosine):
    return unit(cosine, np.sqrt(1 - cosine**2))


@pytest.mark.parametrize(
    ("cosine", "box", "seconds", "camera", "same"),
    [
        (0.9, FAR, 1e6, "another", True),  # it looks the same
        (0.7, FAR, 1.0, "camera", False),
        (0.7, HERE, 1.0, "camera", True),  # roughly, at the same place
        (0.7, PART, 1.0, "camera", True),
        (0.7, HERE, 6.0, "camera", False),
        (0.7, HERE, 1.0, "another", False),
        (0.6, HERE, 1.0, "camera", False),
    ],
)
def test_likeness_place_and_time_decide_together(index, cosine, box, seconds, camera, same):
    view = View(NOW.stamp + int(seconds * 1e9), camera, 640, 480)
    assert found(index, at(cosine), box, view) == ["u1"] * same


def test_what_was_seen_elsewhere_at_once_is_never_the_same(index):
    assert found(index, at(1.0), others=Others({"u1"}, {"u1"})) == []


def test_of_what_was_seen_beside_it_only_the_look_counts(index):
    beside = Others(set(), {"u1"})
    assert found(index, at(0.7), others=beside) == []
    assert found(index, at(0.9), others=beside) == ["u1"]


def test_the_most_alike_comes_first(index):
    index.place("u2", HERE, NOW)
    index.follow("u2", at(0.9))
    assert found(index, at(0.9)) == ["u2", "u1"]
    assert index.duplicates("u1", NOW) == ["u2"]


def test_boxes_are_apart_beside_or_parts_of_each_other():
    crossing = (150, 50, 250, 180)
    apart, beside = relations(np.array([HERE, PART, FAR, crossing], np.float32))
    assert apart[0].tolist() == [False, False, True, False]
    assert beside[0].tolist() == [False, False, True, True]
    assert (apart == apart.T).all()
    assert (beside == beside.T).all()


def test_an_object_that_is_gone_leaves_the_others_as_they_were(index):
    rows = {f"u{n}": unit(0, 1, n) for n in range(2, 80)}
    for name, row in rows.items():
        index.place(name, FAR, NOW)
        index.follow(name, row)
    for name in list(rows)[::2]:
        index.remove(name)
        del rows[name]
    kept = index.embeddings()
    assert kept.keys() == {"u1", *rows}
    for name, row in rows.items():
        assert np.allclose(kept[name], row)


def test_who_is_apart_from_one_of_two_is_apart_from_what_they_become(index):
    for name in ("u2", "u3"):
        index.place(name, FAR, NOW)
        index.follow(name, unit(1))
    index.note_others("u2", Others({"u3"}, {"u3"}))
    assert index.duplicates("u3", NOW) == ["u1"]
    index.remove("u2", "u1")
    assert index.duplicates("u3", NOW) == index.duplicates("u1", NOW) == []


def test_embeddings_of_another_network_are_not_compared(index):
    assert found(index, np.ones(7, np.float32) / np.sqrt(7)) == []
    index.replace_embeddings({"u1": np.eye(7, dtype=np.float32)[2]})
    assert found(index, np.eye(7, dtype=np.float32)[2]) == ["u1"]
    assert found(index, unit(1)) == []
