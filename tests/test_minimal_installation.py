# SPDX-License-Identifier: Apache-2.0
"""A robot without the training and simulation packages detects, and learns a class."""

import array
import os
import subprocess
import sys

import cv2
import pytest
import yaml
from sensor_msgs.msg import CompressedImage, Image

from newfound_core.testing import square, tiny_open_world
from newfound_msgs.msg import OpenWorldDetection, OpenWorldDetections
from newfound_msgs.srv import AddUnknownClass
from newfound_runtime.testing import eventually, image

MISSING = ("newfound_training", "newfound_sim", "mitsuba", "tensorboard")
YELLOW, RED = (230, 220, 40), (220, 40, 40)
DETECTOR = "/open_world_detector"
# Python imports a module of this name at its start, in every process that inherits PYTHONPATH: the
# learning process, too.
SITECUSTOMIZE = f"""
import sys

class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {MISSING!r}:
            raise ModuleNotFoundError(f"No module named '{{name}}' on this robot", name=name)

sys.meta_path.insert(0, Missing)
"""


@pytest.fixture
def robot(tmp_path):
    """Environment variables of a machine that lacks those packages."""
    folder = tmp_path / "robot"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path, "ROS_HOME": str(tmp_path / "ros"), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("module", MISSING)
def test_the_packages_are_missing_there(robot, module):
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        env={**os.environ, **robot},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"No module named '{module}' on this robot" in done.stderr


class Camera:
    """Shows squares to the detector; what it says of the last one."""

    def __init__(self, ros):
        self._said = ros.collect(OpenWorldDetections, f"{DETECTOR}/detections")
        self._publisher = ros.publisher(Image, "/image")
        ros.connected(self._publisher)

    def show(self, colour):
        pixels, number = square(colour, len(self._said)), len(self._said) + 1
        message = image(pixels.shape[1], pixels.shape[0], number)
        message.data = array.array("B", pixels.tobytes())

        def answer():
            # Until the node subscribes as the camera publishes, an image may be lost: once more.
            self._publisher.publish(message)
            told = [s for s in self._said if s.header.stamp.sec == number]
            return told[0].detections if told else None

        [detection] = eventually(answer, "an answer")
        return detection


def png(colour, number):
    pixels = cv2.cvtColor(square(colour, number), cv2.COLOR_RGB2BGR)
    return CompressedImage(format="png", data=cv2.imencode(".png", pixels)[1].tobytes())


@pytest.mark.slow
def test_the_detector_learns_a_class_and_recognises_it(ros, robot, tmp_path):
    parameters = {
        "checkpoint": str(tiny_open_world(tmp_path / "model")),
        "knowledge_base": str(tmp_path / "knowledge"),
        "proposer": "whole_image",
        "learning_threads": 1,
        "learning_niceness": 0,
        "max_accuracy_loss": 1.0,
    }
    file = tmp_path / "robot.yaml"
    file.write_text(yaml.safe_dump({
        "/container": {"ros__parameters": {"nodes": ["open_world_detector"]}},
        DETECTOR: {"ros__parameters": parameters},
    }))  # fmt: skip
    module = "newfound_runtime.container"
    ros.process("-m", module, "--ros-args", "--params-file", str(file), **robot)
    ros.becomes_active(DETECTOR)
    camera = Camera(ros)
    assert camera.show(RED).label == "red"
    assert camera.show(YELLOW).kind == OpenWorldDetection.KIND_UNKNOWN
    images = [png(YELLOW, number) for number in range(8)]
    request = AddUnknownClass.Request(label="lemon", images=images)
    answer = ros.call(AddUnknownClass, f"{DETECTOR}/add_unknown_class", request)
    assert answer.result == 0, answer.message
    eventually(lambda: camera.show(YELLOW).label == "lemon", "recognised", timeout=200)
    assert camera.show(RED).label == "red"
