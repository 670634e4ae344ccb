# SPDX-License-Identifier: Apache-2.0
"""The launch files under the real `ros2 launch`, where a ROS installation brings it."""

import importlib.util
import signal
import subprocess

import pytest
import yaml

from tests.harness import ACTIVE, ROOT, eventually

pytest.importorskip("launch_ros", reason="launch_ros comes only with a ROS installation")
pytest.importorskip("ros2launch", reason="ros2launch comes only with a ROS installation")

FILES = sorted((ROOT / "launch").glob("*.launch.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_every_argument_is_described(file):
    from launch.actions import DeclareLaunchArgument

    spec = importlib.util.spec_from_file_location("launch_file", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    entities = module.generate_launch_description().entities
    arguments = [e for e in entities if isinstance(e, DeclareLaunchArgument)]
    assert arguments
    assert [a.name for a in arguments if not a.description.endswith(".")] == []


def test_the_container_comes_up_and_ends_with_ctrl_c(ros, tmp_path):
    parameters = tmp_path / "robot.yaml"
    parameters.write_text(yaml.safe_dump({
        "/**/container": {"ros__parameters": {"nodes": ["tests.nodes.Echo:rear/second"]}},
    }))  # fmt: skip
    command = ["ros2", "launch", "newfound_bringup", "container.launch.py",
               f"params_file:={parameters}", "namespace:=robot"]  # fmt: skip
    environment = {**ros.environment, "ROS_LOG_DIR": str(tmp_path)}
    launched = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        eventually(lambda: ros.state("/robot/rear/second") == ACTIVE, patience=60)
    finally:
        launched.send_signal(signal.SIGINT)
        text, _ = launched.communicate(timeout=60)
    assert "process has finished cleanly" in text
    assert launched.returncode == 0
