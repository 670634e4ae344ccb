# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_runtime.replay import DEFAULT_NODES, listed_nodes, perception_nodes

ECHO = "newfound_runtime.testing.Echo"


def test_a_parameter_file_says_which_nodes_run(tmp_path):
    file = tmp_path / "robot.yaml"
    listed = f"[{ECHO}, '{ECHO}:rear/echo', newfound_runtime.managed_node.ManagedNode]"
    file.write_text(f"/container:\n  ros__parameters:\n    nodes: {listed}\n")
    found = perception_nodes(listed_nodes(file))
    assert found == (ECHO, f"{ECHO}:rear/echo"), "the last processes no images"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/container: {ros__parameters: {nodes: [no_such_node]}}", "no node 'no_such_node'"),
        ("/container: {ros__parameters: {nodes: []}}", "no node processes images"),
        ("/container: {ros__parameters: {nodes: [no.such.module]}}", "No module named"),
        ("- a list", "not a parameter file"),
        ("{", "not a parameter file"),
    ],
)
def test_a_file_that_names_no_node_is_refused(tmp_path, text, told):
    file = tmp_path / "robot.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        perception_nodes(listed_nodes(file))
    with pytest.raises(ConfigError, match="not a parameter file"):
        listed_nodes(tmp_path / "missing.yaml")


def test_the_default_is_what_a_robot_looks_with():
    assert tuple(listed_nodes(None)) == DEFAULT_NODES
    assert DEFAULT_NODES == ("adaptive_classifier", "open_world_detector")
