# SPDX-License-Identifier: Apache-2.0
"""A class goes from one running detector to another, as a file."""

import pytest

from newfound_msgs.srv import ExportClass, ForgetClass, ImportPackage
from newfound_nodes.open_world.node import OpenWorldDetector
from newfound_runtime.testing import eventually

NODE = "/open_world_detector"
Exported, Imported = ExportClass.Response, ImportPackage.Response


@pytest.fixture
def node(ros, tmp_path, shipped, key):
    return ros.started(
        OpenWorldDetector,
        checkpoint=str(shipped),
        knowledge_base=str(tmp_path / "base"),
        proposer="whole_image",
        package_keys=str(tmp_path / "keys"),
        max_accuracy_loss=1.0,
        max_class_loss=1.0,
    )


def export(ros, label):
    request = ExportClass.Request(label=label)
    return ros.call(ExportClass, f"{NODE}/export_class", request)


def load(ros, package):
    request = ImportPackage.Request(package=package)
    return ros.call(ImportPackage, f"{NODE}/import_package", request)


def test_a_class_that_was_given_away_can_be_taken_back(ros, node):
    given = export(ros, "red")
    assert (given.result, given.file_name) == (Exported.RESULT_OK, "red.nfp")
    assert load(ros, given.package).result == Imported.RESULT_LABEL_EXISTS
    ros.call(ForgetClass, f"{NODE}/forget_class", ForgetClass.Request(label="red"))
    assert "red" not in node.session.in_use.knowledge.labels
    taken = load(ros, given.package)
    assert (taken.result, taken.label, taken.signer) == (Imported.RESULT_OK, "red", "myself")
    eventually(lambda: "red" in node.session.in_use.knowledge.labels, "red is learned")


def test_what_must_not_be_taken_is_refused_with_the_reason(ros, node, tmp_path):
    keys = tmp_path / "keys"
    given = export(ros, "red")
    assert export(ros, "nobody").result == Exported.RESULT_UNKNOWN_LABEL
    damaged = bytearray(given.package)
    damaged[len(damaged) // 2] ^= 0xFF
    for package, reason in ((bytes(damaged), ""), (b"junk", "no zip file")):
        answer = load(ros, package)
        assert answer.result == Imported.RESULT_BAD_PACKAGE
        assert reason in answer.message
    (keys / "trusted" / "myself.pub").unlink()
    answer = load(ros, given.package)
    assert answer.result == Imported.RESULT_BAD_PACKAGE
    assert "not trusted" in answer.message
    (keys / "signing.pem").unlink()
    unsigned = export(ros, "red")
    assert unsigned.result == Exported.RESULT_OK
    assert "not signed" in unsigned.message
    assert "not signed" in load(ros, unsigned.package).message
