# SPDX-License-Identifier: Apache-2.0
"""A class goes from one running segmenter to another, as a file."""

import pytest

from newfound_core.packages import pack
from newfound_core.packages.classes import export_class
from newfound_core.testing import tiny_open_world
from newfound_msgs.srv import ExportClass, ForgetClass, ImportPackage
from newfound_nodes.segmenter.node import SegmenterNode
from newfound_runtime.testing import eventually

NODE = "/segmenter"
Exported, Imported = ExportClass.Response, ImportPackage.Response


@pytest.fixture
def node(ros, tmp_path, shipped, key):
    return ros.started(
        SegmenterNode,
        checkpoint=str(shipped),
        knowledge_base=str(tmp_path / "base"),
        package_keys=str(tmp_path / "keys"),
        learning_iterations=30,
        max_accuracy_loss=1.0,
        max_class_loss=1.0,  # how well it is learned is not looked at
    )


def export(ros, label):
    return ros.call(ExportClass, f"{NODE}/export_class", ExportClass.Request(label=label))


def load(ros, package):
    request = ImportPackage.Request(package=package)
    return ros.call(ImportPackage, f"{NODE}/import_package", request)


def test_a_class_that_was_given_away_can_be_taken_back(ros, node):
    given = export(ros, "red")
    assert (given.result, given.file_name) == (Exported.RESULT_OK, "red.nfp")
    assert load(ros, given.package).result == Imported.RESULT_LABEL_EXISTS
    ros.call(ForgetClass, f"{NODE}/forget_class", ForgetClass.Request(label="red"))
    taken = load(ros, given.package)
    assert (taken.result, taken.label, taken.signer) == (Imported.RESULT_OK, "red", "myself")
    labels = lambda: node.session.in_use.segmenter.labels  # noqa: E731
    eventually(lambda: labels() == ("background", "green", "blue", "red"), "learned", 240.0)
    assert export(ros, "red").result == Exported.RESULT_OK  # what it was taught with is kept


def test_what_must_not_be_taken_is_refused_with_the_reason(ros, node, key, tmp_path):
    given = export(ros, "red")
    for label in ("nobody", "background"):
        assert export(ros, label).result == Exported.RESULT_UNKNOWN_LABEL
    objects = export_class(tiny_open_world(tmp_path / "detector"), "red")
    refused = {
        b"junk": "no zip file",
        pack(objects, key): "it holds a class, no segmentation_class",
        pack(objects): "not signed",
    }
    for package, reason in refused.items():
        answer = load(ros, package)
        assert answer.result == Imported.RESULT_BAD_PACKAGE
        assert reason in answer.message
    (tmp_path / "keys" / "trusted" / "myself.pub").unlink()
    assert "not trusted" in load(ros, given.package).message
    assert ros.set(NODE, signed_packages_only=False).successful
    assert load(ros, given.package).result == Imported.RESULT_LABEL_EXISTS
