# SPDX-License-Identifier: Apache-2.0
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from newfound_core.models import load_model
from newfound_core.onda.statistics import NormalizationLayers
from newfound_core.predictive import AdaGraphClassifier
from newfound_core.predictive.choice import change
from newfound_core.predictive.measured import NAMES, average
from newfound_core.testing import tiny
from newfound_training.commands import main

LIGHTS, CAMERAS = {"day": 1.0, "dusk": 0.6, "night": 0.3}, {"kinect": 0, "webcam": 40}
LABELS = ("a", "b", "c")


def paint(path: Path, light: float, offset: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(60, 200, (32, 32, 3)) * light + offset
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """Six domains of 18 images, light x camera."""
    root = tmp_path_factory.mktemp("bench")
    for light, factor in LIGHTS.items():
        for camera, offset in CAMERAS.items():
            for number in range(18):
                path = root / f"{light}_{camera}" / LABELS[number % 3] / f"{number:03d}.png"
                paint(path, factor, offset, number)
    return root


@pytest.fixture
def model(tmp_path):
    return tiny(tmp_path / "source", labels=LABELS)


def train(model, out, *more):
    return main(["train-predictive", "--checkpoint", str(model), "--out", str(out), *more])


CONDITIONS = ("--conditions", "light", "camera")


def result_of(out):
    return json.loads((out / "result.json").read_text())


def test_a_graph_is_made_by_one_command_and_predicts_an_unseen_combination(
    bench, model, tmp_path, undocumented
):
    out = tmp_path / "out"
    known = [p.name for p in sorted(bench.iterdir()) if p.name != "night_webcam"]
    assert train(model, out, "--data", str(bench), *CONDITIONS, "--domains", *known) == 0
    result = result_of(out)
    assert result["nodes"] == dict.fromkeys(known, 18)
    assert result["left_out"] == result["merged"] == []
    data = {*known, "described", "measured", "both"}
    data |= {name for tried in result["scores"].values() for name in tried} | set(result["priors"])
    assert not undocumented("train-predictive", result, data)
    loaded = load_model(out / "checkpoint", "adagraph").model
    assert isinstance(loaded, AdaGraphClassifier)
    prior = loaded.domain_graph().config.prior_frames
    assert len(prior) == len(NormalizationLayers(loaded).names)
    best = result["priors"].pop("each layer its own")
    assert best <= min(result["priors"].values())
    found = loaded.domain_graph().predict({"light": "night", "camera": "webcam"})
    assert found.distance == pytest.approx(1)
    again = ["--data", str(bench), *CONDITIONS, "--domains", *known, "--resume"]
    assert train(model, out, *again) == 0


def test_metadata_from_a_file(bench, model, tmp_path):
    file = tmp_path / "domains.yaml"
    file.write_text(
        "fields:\n"
        "  level: number\n"
        "  camera: category\n"
        "  exposure: {kind: number, measured: true}\n"
        "domains:\n"
        "  day_kinect: {level: 1.0, camera: kinect, exposure: 5}\n"
        "  dusk_kinect: {level: 0.6, camera: kinect, exposure: 10}\n"
        "  night_kinect: {level: 0.3, camera: kinect, exposure: 40}\n"
    )
    names = ["day_kinect", "dusk_kinect", "night_kinect"]
    arguments = ["--data", str(bench), "--metadata", str(file), "--domains", *names]
    assert train(model, tmp_path / "out", *arguments) == 0
    graph = load_model(tmp_path / "out" / "checkpoint").model.domain_graph()
    assert graph.schema.field("level").low == 0.3
    assert graph.predict({"level": 0.8, "camera": "kinect"}).distance < 0.5
    # What the camera reports counts as measured, and a tenth of its range is no change.
    seen = {f.name: graph.nodes[0].metadata[f.name] for f in graph.schema.measured}
    assert change(graph, seen, seen | {"exposure": 5 + 3.5}) < 1
    assert change(graph, seen, seen | {"exposure": 40}) > 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fields: {level: number}\n", "two tables"),
        ("fields: {level: number}\ndomains: {day_kinect: {levle: 1}}\n", "did you mean 'level'"),
        ("fields: {level: number}\ndomains: {day_kinect: {}}\n", "has no value of level"),
        ("fields: {contrast: number}\ndomains: {day_kinect: {contrast: 1}}\n", "measured on"),
        ("fields: {level: number}\ndomains: {day_kinect: {level: }}\n", "has no value of level"),
        ("fields: {level: number}\ndomains: {day_kinect: {level: .inf}}\n",
         "domain day_kinect: level must be a finite number, got inf"),
        ("fields: {lamp: category}\ndomains: {day_kinect: {lamp: [a]}}\n", "must be one value"),
        ("fields: {lamp: {weight: x}}\ndomains: {day_kinect: {lamp: a}}\n", "weight cannot be"),
        ("fields: {level: size}\ndomains: {day_kinect: {level: 1}}\n", "kind must be one of"),
        ("fields: {level: number}\ndomains: {day_kinect: {level: 1}}\n", "does not describe dusk"),
        ("fields: {level: number}\ndomains: {moon: {level: 1}, day_kinect: {level: 1}, "
         "dusk_kinect: {level: 2}}\n", "describes moon"),
    ],
)  # fmt: skip
def test_a_file_that_makes_no_sense_is_refused(bench, model, tmp_path, capsys, text, message):
    file = tmp_path / "domains.yaml"
    file.write_text(text)
    arguments = ["--data", str(bench), "--metadata", str(file)]
    arguments += ["--domains", "day_kinect", "dusk_kinect"]
    assert train(model, tmp_path / "out", *arguments) != 0
    assert message in capsys.readouterr().err


def test_small_domains_are_left_out_and_equal_ones_joined(bench, model, tmp_path):
    data = shutil.copytree(bench, tmp_path / "data")
    for number in range(16, 18):
        (data / "night_webcam" / LABELS[number % 3] / f"{number:03d}.png").unlink()
    (data / "night_webcam" / "a" / "000.png").unlink()  # 15 are left
    shutil.copytree(data / "day_kinect", data / "day_copy")
    lines = [
        f"  {p.name}: {{place: {p.name.replace('_copy', '_kinect')}}}" for p in data.iterdir()
    ]
    file = tmp_path / "domains.yaml"
    file.write_text("fields: {place: category}\ndomains:\n" + "\n".join(lines) + "\n")
    assert train(model, tmp_path / "out", "--data", str(data), "--metadata", str(file)) == 0
    result = result_of(tmp_path / "out")
    assert result["left_out"] == ["night_webcam"]
    assert result["merged"] == ["day_copy+day_kinect"]
    assert result["nodes"]["day_copy+day_kinect"] == 36


def test_descriptions_are_equal_by_value_and_a_folder_may_have_any_name(bench, model, tmp_path):
    names = ("day+sun", "day_copy", "dusk", "night")
    for name, kind in zip(names, ("day", "day", "dusk", "night"), strict=True):
        shutil.copytree(bench / f"{kind}_kinect", tmp_path / "data" / name)
    file = tmp_path / "domains.yaml"
    file.write_text(
        "fields: {gain: number, hour: {kind: cyclic, period: 24}, since: category, "
        "exposure: {kind: number, measured: true}}\n"
        "domains:\n"
        "  day+sun: {gain: 2, hour: 0, exposure: 4, since: 2026-01-01}\n"
        "  day_copy: {gain: 2.0, hour: 24, exposure: 6, since: 2026-01-01}\n"
        "  dusk: {gain: 3, hour: 18, exposure: 9, since: 2026-01-01}\n"
        "  night: {gain: 4, hour: 22, exposure: 30, since: 2026-02-01}\n"
    )
    data = ["--data", str(tmp_path / "data"), "--metadata", str(file)]
    assert train(model, tmp_path / "out", *data) == 0
    result = result_of(tmp_path / "out")
    assert result["merged"] == ["day+sun+day_copy"]
    assert result["nodes"] == {"day+sun+day_copy": 36, "dusk": 18, "night": 18}
    nodes = load_model(tmp_path / "out" / "checkpoint").model.domain_graph().nodes
    assert nodes[0].metadata["exposure"] == 5
    apart = ["--domains", "day+sun", "dusk", "night"]
    assert train(model, tmp_path / "apart", *data, *apart) == 0
    assert result_of(tmp_path / "apart")["merged"] == []


def test_domains_that_all_have_one_description_are_no_graph(bench, model, tmp_path, capsys):
    file = tmp_path / "domains.yaml"
    file.write_text("fields: {place: category}\ndomains:\n"
                    "  day_kinect: {place: hall}\n  dusk_kinect: {place: hall}\n")  # fmt: skip
    arguments = ["--metadata", str(file), "--domains", "day_kinect", "dusk_kinect"]
    assert train(model, tmp_path / "out", "--data", str(bench), *arguments) != 0
    message = capsys.readouterr().err
    assert "of 2 domains 1 can be a node" in message
    assert "equal are day_kinect+dusk_kinect" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--domains", "day_kinect", *CONDITIONS], "The source alone is train-source"),
        (["--conditions", "light"], "has 2 parts between underscores"),
        (["--domains", "moon", *CONDITIONS], "no domain 'moon'"),
    ],
)
def test_what_cannot_be_a_graph_is_refused(bench, model, tmp_path, capsys, arguments, message):
    assert train(model, tmp_path / "out", "--data", str(bench), *arguments) != 0
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("measured", "fields"), [("stem", ("stem_1",)), ("image", NAMES)])
def test_unlabelled_footage_becomes_nodes_known_by_what_they_look_like(
    bench, model, tmp_path, measured, fields
):
    footage = tmp_path / "footage"
    for light in ("day", "night"):
        for path in (bench / f"{light}_kinect").rglob("*.png"):
            target = footage / f"{light}{path.stem}.png"
            target.parent.mkdir(exist_ok=True)
            shutil.copy(path, target)
    (footage / "broken.png").write_bytes(b"no image")
    out = tmp_path / "out"
    arguments = ["--footage", str(footage), "--clusters", "2", "--measured", measured]
    assert train(model, out, *arguments) == 0
    result = result_of(out)
    assert result["nodes"] == {"cluster_0": 18, "cluster_1": 18}
    assert result["corrupt_images"] == ["1 frames of the footage"]
    loaded = load_model(out / "checkpoint")
    graph, measure = (
        loaded.model.domain_graph(),
        loaded.model.measurer(loaded.metadata.preprocessing),
    )
    assert graph.schema.names == fields
    lights = {}
    for light in ("day", "night"):
        frames = [np.array(Image.open(p)) for p in (bench / f"{light}_kinect").rglob("*.png")]
        lights[light] = graph.predict(average([measure(frame) for frame in frames]))
    # A node's own measured fields are the mean of its images': it is where it was measured.
    assert [found.distance for found in lights.values()] == pytest.approx([0, 0], abs=1e-4)
    assert len({next(iter(found.shares)) for found in lights.values()}) == 2


@pytest.mark.parametrize(
    ("count", "message"),
    [(0, "0 frames of footage"), (2, "2 domains need at least 32"), (None, "does not exist")],
)
def test_footage_with_too_few_frames_is_refused(model, tmp_path, capsys, count, message):
    footage = tmp_path / "footage"
    if count is not None:
        footage.mkdir()
    for number in range(count or 0):
        paint(footage / f"{number}.png", 1.0, 0, number)
    assert train(model, tmp_path / "out", "--footage", str(footage), "--clusters", "2") != 0
    assert message in capsys.readouterr().err


def test_the_first_frames_from_every_start_by_one_command(bench, model, tmp_path, undocumented):
    out = tmp_path / "out"
    arguments = ["evaluate-predictive", "--checkpoint", str(model), "--data", str(bench)]
    arguments += ["--stream-data", str(bench), *CONDITIONS, "--source-domain", "day_kinect"]
    arguments += ["--targets", "night_webcam", "--seeds", "1", "--frames", "18"]
    arguments += ["--auxiliary", "2", "--frames-per-update", "4", "--out", str(out)]
    assert main(arguments) == 0
    result = result_of(out)
    assert 0 <= result["methods"]["both"]["first"] <= 1
    assert result["methods"]["both"]["later"] is None
    assert set(result["auxiliary"]) == {"2", "4"}
    data = {"night_webcam", "2", "4", *result["methods"]}
    assert not undocumented("evaluate-predictive", result, data)
    assert (out / "first_frames.png").stat().st_size
    (out / "result.json").unlink()
    assert main([*arguments, "--resume"]) == 0
    assert result_of(out)["methods"] == result["methods"]


def test_full_adagraph_is_trained_saved_and_resumed(bench, model, tmp_path):
    out = tmp_path / "out"
    arguments = ["--data", str(bench), *CONDITIONS, "--affine", "graph"]
    arguments += ["--source-domain", "day_kinect", "--affine-epochs", "0.5"]
    assert train(model, out, *arguments) == 0
    graph = load_model(out / "checkpoint", "adagraph").model.domain_graph()
    assert graph.scale is not None
    assert (graph.scale - graph.scale[0]).abs().max() > 0
    found = graph.predict({"light": "dusk"}).statistics
    assert found.scale.shape == found.mean.shape
    (out / "result.json").unlink()
    assert train(model, out, *arguments, "--resume") == 0
    again = load_model(out / "checkpoint").model.domain_graph()
    torch.testing.assert_close(again.scale, graph.scale)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--affine", "graph"], "source's labels"),
        (["--affine", "all"], "affine must be"),
        (["--affine", "node", "--source-domain", "moon"], "source_domain must be one of"),
    ],
)
def test_scale_and_bias_without_a_source_are_refused(
    bench, model, tmp_path, capsys, arguments, message
):
    known = ["--data", str(bench), *CONDITIONS, *arguments]
    assert train(model, tmp_path / "out", *known) != 0
    assert message in capsys.readouterr().err


def test_full_and_refined_starts_are_rows_of_the_table(bench, model, tmp_path):
    out = tmp_path / "out"
    arguments = ["evaluate-predictive", "--checkpoint", str(model), "--data", str(bench)]
    arguments += ["--stream-data", str(bench), *CONDITIONS, "--source-domain", "day_kinect"]
    arguments += ["--targets", "night_webcam", "--seeds", "1", "--frames", "12", "--out", str(out)]
    arguments += ["--auxiliary", "2", "--frames-per-update", "4", "--affine", "graph"]
    assert main([*arguments, "--affine-epochs", "0.2", "--refine-rate", "0.001"]) == 0
    rows = result_of(out)["methods"]
    assert {"refined", "full", "full_refined"} <= set(rows)


def test_clusters_of_the_other_domains_can_be_the_nodes(bench, model, tmp_path):
    out = tmp_path / "out"
    arguments = ["evaluate-predictive", "--checkpoint", str(model), "--data", str(bench)]
    arguments += ["--stream-data", str(bench), *CONDITIONS, "--source-domain", "day_kinect"]
    arguments += ["--targets", "night_webcam", "--seeds", "1", "--frames", "12", "--out", str(out)]
    arguments += ["--methods", "clusters", "--clusters", "2", "--auxiliary", "9"]
    assert main(arguments) == 0
    assert list(result_of(out)["methods"]) == ["source", "clusters", "both", "own_fixed"]
