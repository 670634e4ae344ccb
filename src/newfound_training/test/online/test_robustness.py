# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import numpy as np
import pytest

from newfound_core.errors import ConfigError
from newfound_training.commands import main
from newfound_training.online.options import OnlineOptions
from newfound_training.online.robustness import gains, stream_order, streams_markdown

OPTIONS = OnlineOptions(burst=3)


def runs(values):
    """Lengths of stretches of one value."""
    changes = np.flatnonzero(np.diff(values)) + 1
    return np.diff([0, *changes, len(values)])


def test_every_stream_shows_every_image_once_and_always_in_the_same_order(target):
    for stream in ("shuffled", "sorted", "bursty", "video"):
        order = stream_order(target, stream, OPTIONS)
        assert sorted(order) == list(range(len(target.pixels)))
        assert (order == stream_order(target, stream, OPTIONS)).all()


def test_a_sorted_stream_shows_one_class_after_the_other(target):
    labels = target.labels[stream_order(target, "sorted", OPTIONS)]
    assert list(runs(labels)) == [8, 8, 8]


def test_a_bursty_stream_shows_a_class_for_some_frames(target):
    labels = target.labels[stream_order(target, "bursty", OPTIONS)]
    assert len(runs(labels)) > 3
    assert max(runs(labels)) > 1


def test_a_video_is_shown_as_filmed(target):
    names = [Path(source.name).name for source in target.pixels.images.sources]
    order = stream_order(target, "video", OPTIONS)
    assert [names[i] for i in order] == sorted(names)


ROWS = [
    {"source": "a", "target": "b", "stream": "shuffled",
     "accuracy": {"source only": 0.5, "default": 0.7}},
    {"source": "a", "target": "b", "stream": "sorted",
     "accuracy": {"source only": 0.5, "default": 0.4}},
]  # fmt: skip


def test_gains_are_over_the_source_and_the_worst_names_its_stream():
    found = gains(ROWS, "default")
    assert found["mean"] == pytest.approx(0.05)
    assert found["shuffled"] == pytest.approx(0.2)
    assert found["worst"] == pytest.approx(-0.1)
    assert found["worst_stream"] == "a:b, sorted"


def test_the_table_has_a_line_for_every_stream_and_the_gains():
    lines = streams_markdown(ROWS, ["source only", "default"]).splitlines()
    assert lines[2] == "| a → b | shuffled | 50.0 | 70.0 |"
    assert lines[3] == "|  | sorted | 50.0 | 40.0 |"
    assert lines[-1] == "| **worst gain** | all |  | -10.0 |"


def test_streams_and_guards_by_one_command(tree, tmp_path, small_model, make_image, undocumented):
    data = tmp_path / "data"
    for domain in ("noon", "dusk"):
        for name, colour in (("blue", (9, 9, 99)), ("green", (9, 99, 9)), ("red", (99, 9, 9))):
            for number in range(5):
                make_image(data / domain / name / f"{number}.png", colour, number)
    out = tmp_path / "out"
    arguments = ["evaluate-online", "--data", str(data), "--out", str(out), "--burst", "4"]
    arguments += ["--checkpoint", str(small_model.directory), "--pairs", "elsewhere:dusk"]
    arguments += ["--streams", "sorted", "alternating", "--verify-frames", "12"]
    arguments += ["--methods", "default", "thesis, streaming"]
    assert main(arguments) == 0
    result = json.loads((out / "result.json").read_text())
    assert [(r["stream"], r["frames"]) for r in result["streams"]] == [
        ("sorted", 15),
        ("alternating", 30),
    ]
    assert result["verification"]["default"] == {"frames": 12, "predicted_alike": 12}
    names = {"default", "thesis, streaming", "source only"}
    assert not undocumented("evaluate-online", result, names)
    assert "| **worst gain** |" in (out / "table.md").read_text()


def test_a_method_that_there_is_not_is_refused(tree, tmp_path, small_model, capsys):
    arguments = ["evaluate-online", "--data", str(tree), "--out", str(tmp_path / "out")]
    arguments += ["--checkpoint", str(small_model.directory), "--pairs", "elsewhere:dark"]
    assert main([*arguments, "--streams", "sorted", "--methods", "magic"]) == 2
    assert "there are no methods ['magic']" in capsys.readouterr().err


def test_a_burst_without_frames_is_refused():
    with pytest.raises(ConfigError, match="burst"):
        OnlineOptions(burst=0)
