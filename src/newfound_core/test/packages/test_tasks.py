# SPDX-License-Identifier: Apache-2.0
"""A task trained for one robot is served by another that has the same network."""

import hashlib
import json
import struct
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load, save

from newfound_core.classifier import Classifier
from newfound_core.models import load_model
from newfound_core.packages import PackageError, pack, unpack
from newfound_core.packages.__main__ import main
from newfound_core.packages.keys import SigningKey
from newfound_core.packages.tasks import export_task, import_task
from newfound_core.preprocessing import Preprocessing
from newfound_core.task_delta.checkpoint import load_base, save_delta
from newfound_core.task_delta.config import TaskDeltaConfig
from newfound_core.task_delta.layers import convert
from newfound_core.testing import tiny

FILE = "model.safetensors"


@pytest.fixture
def base(tmp_path):
    return tiny(tmp_path / "base")


@pytest.fixture
def task(base, tmp_path):
    config = TaskDeltaConfig()
    backbone = convert(load_model(base).model.backbone, config, 1e-3)
    model, prepared = Classifier(backbone, 2), Preprocessing(size=32)
    folder = tmp_path / "tasks" / "fruit"
    folder.parent.mkdir()
    return save_delta(
        folder, model, config, load_base(base), labels=("a", "b"), preprocessing=prepared
    )


@pytest.fixture
def package(task):
    return unpack(pack(export_task(task, "robot one")))


def test_an_imported_task_answers_as_the_exported_one(package, task, base, tmp_path):
    folder = import_task(tmp_path / "other", package, base)
    assert folder == tmp_path / "other" / "fruit"
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        here, there = (load_model(f, "source", base=base).model(images) for f in (task, folder))
    assert torch.equal(here, there)


def test_a_task_of_another_network_is_refused_and_nothing_is_written(package, tmp_path):
    other = tiny(tmp_path / "another", seed=5)
    with pytest.raises(PackageError, match="fruit is a delta of another network"):
        import_task(tmp_path / "root", package, other)
    assert not list((tmp_path / "root").iterdir())


def test_a_task_that_is_there_is_exchanged_only_if_asked(package, base, tmp_path):
    folder = import_task(tmp_path / "root", package, base)
    (folder / "mark").touch()
    with pytest.raises(PackageError, match="--replace"):
        import_task(tmp_path / "root", package, base)
    assert (folder / "mark").exists()
    import_task(tmp_path / "root", package, base, replace=True)
    assert not (folder / "mark").exists()
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["fruit"]


def test_hostile_tasks_are_refused(package, base, tmp_path):
    values = package.details["checkpoint"]
    content = package.files["model.safetensors"]
    backbone = {**values["backbone"], "options": {"weights": "/etc/passwd"}}
    bad = [
        replace(package, kind="class"),
        replace(package, name="../fruit"),
        replace(package, name=".fruit"),
        replace(package, name="a/b"),
        replace(package, details={}),
        replace(package, details={"checkpoint": []}),
        replace(package, details={"checkpoint": {}}),
        replace(package, details={**package.details, "more": 1}),
        replace(package, details={"checkpoint": {**values, "backbone": backbone}}),
        replace(package, details={"checkpoint": {**values, "method": "source"}}),
        replace(package, files={}),
        replace(package, files={**package.files, "more.safetensors": b""}),
        replace(package, files={"model.safetensors": content[:-1]}),
        replace(package, files={"model.safetensors": b"\x80\x04."}),
    ]
    for made in bad:
        with pytest.raises(PackageError):
            import_task(tmp_path / "root", made, base)
    assert not list(tmp_path.glob("root/*"))


def forged(package, change, **facts):
    """With other tensors or facts, and the digest that belongs to them."""
    tensors = {name: tensor.clone() for name, tensor in load(package.files[FILE]).items()}
    change(tensors)
    content = save(tensors)
    values = {**package.details["checkpoint"], **facts}
    values["tensors_sha256"] = hashlib.sha256(content).hexdigest()
    return replace(package, files={FILE: content}, details={"checkpoint": values})


def header(**tensors):
    """A safetensors file that says this of itself."""
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text + bytes(12)


def fill(value):
    return lambda tensors: [
        each.fill_(value) for each in tensors.values() if each.is_floating_point()
    ]


BIAS = "head.classifier.bias"
FORGED = {
    "NaN": (fill(float("nan")), {}, "NaN"),
    "infinity": (fill(float("inf")), {}, "NaN"),
    "numbers that overflow": (fill(3e38), {}, "answers with NaN"),
    "double precision": (lambda t: t.update({BIAS: t[BIAS].double()}), {}, "float64"),
    "whole numbers": (lambda t: t.update({BIAS: t[BIAS].long()}), {}, "int64"),
    "a tensor less": (lambda t: t.pop("bn"), {}, "are not those of"),
    "a tensor more": (lambda t: t.update(evil=torch.zeros(3)), {}, "evil"),
    "no text as label": (lambda t: None, {"labels": ["a", 1]}, "no text"),
    "half a character": (lambda t: None, {"labels": ["a", "\ud800"]}, "cannot be printed"),
    "100,000 labels": (lambda t: None, {"labels": ["x"] * 100_000}, "more than 10000"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_task_with_the_right_digest_is_refused(package, base, tmp_path, name):
    change, facts, reason = FORGED[name]
    with pytest.raises(PackageError, match=reason):
        import_task(tmp_path / "root", forged(package, change, **facts), base)
    assert not list(tmp_path.glob("root/*"))


F32 = {"dtype": "F32", "shape": [2]}
HEADERS = {
    "a header without end": struct.pack("<Q", 2**62) + b"{}",
    "a header that is no JSON": struct.pack("<Q", 4) + b"abcd",
    "a tensor of terabytes": header(a={**F32, "shape": [2**40], "data_offsets": [0, 2**42]}),
    "tensors that overlap": header(
        a={**F32, "data_offsets": [0, 8]}, b={**F32, "data_offsets": [4, 12]}
    ),
    "a negative side": header(a={**F32, "shape": [-2], "data_offsets": [0, 8]}),
    "a type that there is not": header(a={**F32, "dtype": "PICKLE", "data_offsets": [0, 8]}),
    "nothing": b"",
}


@pytest.mark.parametrize("name", HEADERS)
def test_tensors_that_lie_about_themselves_are_refused(package, base, tmp_path, name):
    content = HEADERS[name]
    digest = {"tensors_sha256": hashlib.sha256(content).hexdigest()}
    details = {"checkpoint": {**package.details["checkpoint"], **digest}}
    with pytest.raises(PackageError, match=r"no.* safetensors file"):
        import_task(
            tmp_path / "root", replace(package, files={FILE: content}, details=details), base
        )
    assert not list(tmp_path.glob("root/*"))


def test_the_command_exports_and_imports_tasks(task, base, tmp_path, capsys, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    key = SigningKey.create(one)
    file, root = str(tmp_path / "fruit.nfp"), str(tmp_path / "root")
    assert main(["export", str(task.parent), "fruit", file, "--keys", str(one)]) == 0
    load = ["import", root, file, "--keys", str(two)]
    assert main([*load, "--base", str(base)]) == 2
    assert "not trusted" in capsys.readouterr().err
    (two / "trusted").mkdir(parents=True)
    (two / "trusted" / "one.pub").write_text(key.public.text)
    assert main(load) == 2
    assert "--base" in capsys.readouterr().err
    assert main([*load, "--base", str(base)]) == 0
    assert main(["inspect", file, "--keys", str(two)]) == 0
    assert '"kind": "task_delta"' in capsys.readouterr().out
    assert load_model(tmp_path / "root" / "fruit", base=base).labels == ("a", "b")


def test_what_is_no_delta_is_not_exported(base):
    with pytest.raises(PackageError, match="delta is needed"):
        export_task(base)
