# SPDX-License-Identifier: Apache-2.0
"""A checkpoint is read back exactly, and whatever is wrong with one is a clear error."""

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from newfound_core.checkpoint import load_checkpoint, save_checkpoint
from newfound_core.errors import CheckpointError
from newfound_core.metadata import BackboneSpec, Metadata, Provenance
from newfound_core.preprocessing import Preprocessing

METADATA = Metadata(
    method="source",
    backbone=BackboneSpec("cifar_resnet20", {"width": 0.5}),
    labels=("cup", "tasse café", "drill"),
    preprocessing=Preprocessing(size=96, mean=(127, 127, 127), std=(128, 128, 128)),
    domains=("kitchen", "workshop"),
    thresholds={"rejection": 0.25},
    options={"temperature": 10, "nested": {"list": [1, 2.5, None, True, "x"]}},
    provenance=Provenance.now("train_source --seed 3", 3, "bench", {"accuracy": 0.9}),
)


def tensors():
    generator = torch.Generator().manual_seed(0)
    return {
        "classifier.weight": torch.randn(3, 8, generator=generator),
        "classifier.bias": torch.randn(3, generator=generator),
        "steps": torch.tensor(7),
        "mask": torch.tensor([True, False]),
        "half": torch.randn(4, generator=generator).half(),
        "view": torch.randn(4, 6, generator=generator).T,
    }


@pytest.fixture
def directory(tmp_path):
    return save_checkpoint(tmp_path / "model", METADATA, tensors())


def test_what_was_saved_is_read_back(directory):
    checkpoint = load_checkpoint(directory, method="source")
    assert checkpoint.metadata == METADATA
    assert checkpoint.memory_directory is None
    assert checkpoint.tensors.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert checkpoint.tensors[name].dtype == tensor.dtype
        assert torch.equal(checkpoint.tensors[name], tensor)


def test_tensors_that_share_memory_can_be_saved(tmp_path):
    state = tensors()
    state["twin"] = state["classifier.bias"]
    save_checkpoint(tmp_path / "model", METADATA, state)
    assert torch.equal(load_checkpoint(tmp_path / "model").tensors["twin"], state["twin"])


def test_the_memory_is_declared_and_found(tmp_path):
    path = tmp_path / "deep" / "model"
    save_checkpoint(
        path, METADATA, tensors(), write_memory=lambda m: (m / "index.json").write_text("{}")
    )
    checkpoint = load_checkpoint(path)
    assert checkpoint.metadata.memory
    assert (checkpoint.memory_directory / "index.json").read_text() == "{}"


# Damage ------------------------------------------------------------------------------------


def edit(directory, **changes):
    path = directory / "checkpoint.json"
    values = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            del values[key]
        else:
            values[key] = value
    path.write_text(json.dumps(values))


def truncate(path, size):
    path.write_bytes(path.read_bytes()[:size])


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))


def pth(directory):
    buffer = io.BytesIO()
    torch.save(tensors(), buffer)
    (directory / "model.safetensors").write_bytes(buffer.getvalue())


DAMAGE = {
    "json cut off": (lambda d: truncate(d / "checkpoint.json", 100), "is damaged"),
    "json empty": (lambda d: truncate(d / "checkpoint.json", 0), "is damaged"),
    "json is binary": (lambda d: (d / "checkpoint.json").write_bytes(b"\xff\xfe\0"), "damaged"),
    "json is a list": (lambda d: (d / "checkpoint.json").write_text("[1]"), "no object"),
    "json with NaN": (lambda d: edit(d, thresholds={"a": float("nan")}), "NaN is not a number"),
    "json too deep": (lambda d: (d / "checkpoint.json").write_text("[" * 10**6), "damaged"),
    "json missing": (lambda d: (d / "checkpoint.json").unlink(), "has no file checkpoint.json"),
    "json renamed": (
        lambda d: (d / "checkpoint.json").rename(d / "config.json"),
        "it holds config.json, model.safetensors",
    ),
    "future version": (lambda d: edit(d, format_version=3), "newer newfound"),
    "past version": (lambda d: edit(d, format_version=1), "older newfound"),
    "version zero": (lambda d: edit(d, format_version=0), "format_version is 0"),
    "version missing": (lambda d: edit(d, format_version=None), "format_version is None"),
    "version is text": (lambda d: edit(d, format_version="1"), "format_version is '1'"),
    "unknown method": (lambda d: edit(d, method="magic"), r"'magic' is not known.*source"),
    "method of another type": (lambda d: edit(d, method=["source"]), "method must be a str"),
    "unknown entry": (lambda d: edit(d, colour="red"), r"unknown entries \['colour'\]"),
    "missing entry": (lambda d: edit(d, labels=None), r"missing entries \['labels'\]"),
    "one label too few": (lambda d: edit(d, labels=["a", "b"]), "lists 2 labels.*3 outputs"),
    "one label too many": (lambda d: edit(d, labels=list("abcd")), "lists 4 labels.*3 outputs"),
    "labels not texts": (lambda d: edit(d, labels=[1, 2, 3]), "labels must be texts"),
    "labels a text": (lambda d: edit(d, labels="abc"), "labels must be a list"),
    "labels twice": (lambda d: edit(d, labels=["a", "b", "a"]), r"\['a'\] occur more than once"),
    "preprocessing incomplete": (lambda d: edit(d, preprocessing={"size": 3}), "missing"),
    "preprocessing absurd": (
        lambda d: edit(d, preprocessing=METADATA.preprocessing.to_dict() | {"size": -1}),
        "size must be",
    ),
    "backbone a text": (lambda d: edit(d, backbone="resnet18"), "backbone must be a table"),
    "provenance a text": (lambda d: edit(d, provenance="me"), "provenance must be a table"),
    "threshold a text": (lambda d: edit(d, thresholds={"a": "b"}), "threshold 'a'"),
    "memory lost": (lambda d: edit(d, memory=True), "declares memory, but there is no folder"),
    "memory undeclared": (lambda d: (d / "memory").mkdir(), "declares no memory, but there is a"),
    "tensors missing": (
        lambda d: (d / "model.safetensors").unlink(),
        "has no file model.safetensors",
    ),
    "tensors renamed": (
        lambda d: (d / "model.safetensors").rename(d / "model.pth"),
        "it holds checkpoint.json, model.pth",
    ),
    "tensors cut off": (lambda d: truncate(d / "model.safetensors", 500), "cut off or damaged"),
    "tensors cut at once": (lambda d: truncate(d / "model.safetensors", 3), "after 3 bytes"),
    "tensors flipped": (lambda d: flip(d / "model.safetensors", -1), "SHA-256 differs"),
    "tensors header flipped": (lambda d: flip(d / "model.safetensors", 9), "SHA-256 differs"),
    "tensors of another": (
        lambda d: save_file({"a": torch.zeros(1)}, d / "model.safetensors"),
        "the file of another checkpoint",
    ),
    "tensors are a .pth": (pth, "a pickle or .pth, which is never opened"),
    "tensors are a pickle": (
        lambda d: (d / "model.safetensors").write_bytes(pickle.dumps({"a": 1})),
        "a pickle or .pth, which is never opened",
    ),
    "digest missing": (lambda d: edit(d, tensors_sha256=None), "SHA-256 differs"),
    "tensors a directory": (
        lambda d: ((d / "model.safetensors").unlink(), (d / "model.safetensors").mkdir()),
        "has no file model.safetensors",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(directory, name):
    damage, message = DAMAGE[name]
    damage(directory)
    with pytest.raises(CheckpointError, match=message) as error:
        load_checkpoint(directory)
    assert str(directory) in str(error.value)


@pytest.mark.parametrize("step", range(0, 2000, 97))
def test_any_flipped_byte_of_either_file_is_noticed_or_harmless(directory, step):
    for name in ("checkpoint.json", "model.safetensors"):
        path = directory / name
        content = path.read_bytes()
        flip(path, step % len(content))
        try:
            checkpoint = load_checkpoint(directory)
        except CheckpointError:
            pass
        else:  # only words in the metadata can change unnoticed, never a tensor
            assert name == "checkpoint.json"
            assert all(torch.equal(checkpoint.tensors[k], v) for k, v in tensors().items())
        path.write_bytes(content)


def test_a_path_that_is_no_directory_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"nowhere does not exist"):
        load_checkpoint(tmp_path / "nowhere")
    (tmp_path / "model.pth").write_bytes(b"\x80\x02.")
    with pytest.raises(CheckpointError, match=r"model.pth is a file.*never opened"):
        load_checkpoint(tmp_path / "model.pth")


def test_a_folder_that_may_not_be_read_is_named(directory):
    user = os.geteuid()
    directory.chmod(0)
    try:
        if user == 0:
            os.seteuid(65534)  # nobody: a superuser may read everything
        with pytest.raises(CheckpointError, match="cannot be read: Permission denied"):
            load_checkpoint(directory)
    finally:
        os.seteuid(user)
        directory.chmod(0o755)


def test_a_checkpoint_of_another_method_is_refused(directory):
    with pytest.raises(CheckpointError, match=r"of method 'source', but bsf or wbn is needed"):
        load_checkpoint(directory, method=("wbn", "bsf"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_tensors_that_are_not_finite_are_neither_saved_nor_loaded(tmp_path, value, monkeypatch):
    state = tensors()
    state["classifier.weight"][1, 2] = value
    with pytest.raises(CheckpointError, match=r"1 of 24 values of classifier.weight"):
        save_checkpoint(tmp_path / "model", METADATA, state)
    assert not (tmp_path / "model").exists()

    with monkeypatch.context() as careless:
        careless.setattr("newfound_core.checkpoint._check_tensors", lambda *_: None)
        save_checkpoint(tmp_path / "model", METADATA, state)
    with pytest.raises(CheckpointError, match=r"1 of 24 values of classifier.weight"):
        load_checkpoint(tmp_path / "model")


def test_an_open_world_threshold_may_be_infinite_but_not_nan(tmp_path):
    state = {
        "head.means.value": torch.zeros(3, 2),
        "head.rejection_threshold": torch.full((3,), torch.inf),
    }
    metadata = replace(METADATA, method="bdoc")
    save_checkpoint(tmp_path / "good", metadata, state)
    assert load_checkpoint(tmp_path / "good").tensors["head.rejection_threshold"].isinf().all()
    state["head.rejection_threshold"][0] = torch.nan
    with pytest.raises(CheckpointError, match=r"head.rejection_threshold"):
        save_checkpoint(tmp_path / "bad", metadata, state)


# Writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "state", "message"),
    [
        (METADATA, {"classifier.bias": torch.zeros(3)}, "needs the tensor classifier.weight"),
        (METADATA, {"classifier.weight": torch.zeros(4, 2)}, "lists 3 labels.*4 outputs"),
        (replace(METADATA, options={"a": {1, 2}}), tensors(), "what JSON cannot"),
        (replace(METADATA, options={"a": float("nan")}), tensors(), "what JSON cannot"),
    ],
)
def test_what_could_not_be_read_is_not_written(tmp_path, metadata, state, message):
    with pytest.raises(CheckpointError, match=message):
        save_checkpoint(tmp_path / "model", metadata, state)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_checkpoint_is_kept_unless_it_may_be_replaced(directory):
    changed = tensors() | {"steps": torch.tensor(8)}
    with pytest.raises(CheckpointError, match="exists already"):
        save_checkpoint(directory, METADATA, changed)
    assert load_checkpoint(directory).tensors["steps"] == 7

    save_checkpoint(directory, METADATA, changed, replace=True)
    assert load_checkpoint(directory).tensors["steps"] == 8
    assert [path.name for path in directory.parent.iterdir()] == ["model"]


def test_a_failure_while_writing_leaves_the_old_one_and_no_litter(directory):
    def full_disk(_folder):
        raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match=r"could not be written.*No space left"):
        save_checkpoint(directory, METADATA, tensors(), write_memory=full_disk, replace=True)
    assert load_checkpoint(directory).metadata == METADATA
    assert [path.name for path in directory.parent.iterdir()] == ["model"]


def test_a_process_killed_while_writing_leaves_no_half_checkpoint(directory):
    program = f"""
        import os, signal, sys, torch
        sys.path[:0] = {sys.path!r}
        from newfound_core.checkpoint import load_checkpoint, save_checkpoint
        old = load_checkpoint({str(directory)!r})
        die = lambda folder: os.kill(os.getpid(), signal.SIGKILL)
        save_checkpoint(old.directory, old.metadata, old.tensors, write_memory=die, replace=True)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert load_checkpoint(directory).metadata == METADATA
    left = [path for path in directory.parent.iterdir() if path != directory]
    assert [path.name.startswith(".model.writing-") for path in left] == [True]


def test_a_checkpoint_can_be_read_by_other_users(directory):
    assert directory.stat().st_mode & 0o055 == 0o055
