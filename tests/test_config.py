# SPDX-License-Identifier: Apache-2.0
"""The parameter files that we ship fit the nodes: names, types, values and defaults."""

import json
import re
from importlib.metadata import entry_points

import pytest
import yaml

from newfound_runtime.container import GROUP
from newfound_runtime.perception_node import DEBUG_OUTPUTS
from tests import ROOT

NODES = {entry.name: entry.load() for entry in entry_points(group=GROUP)}
CONFIG = ROOT / "config"
FILES = sorted(CONFIG.glob("*.yaml"))


def declared(node):
    return {p.name: p for p in (*node.COMMON_PARAMETERS, *node.PARAMETERS)}


@pytest.mark.parametrize("name", NODES)
def test_a_node_has_a_file_that_shows_every_parameter_with_its_default(name):
    [(pattern, content)] = yaml.safe_load((CONFIG / f"{name}.yaml").read_text()).items()
    assert pattern == f"/**/{name}"
    assert content["ros__parameters"] == {
        p.name: p.default for p in declared(NODES[name]).values()
    }


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_a_file_names_only_nodes_and_parameters_that_exist(file):
    content = yaml.safe_load(file.read_text())
    container = content.pop("/container", {"ros__parameters": {"nodes": []}})
    entries = {
        name or kind: kind
        for kind, _, name in (e.partition(":") for e in container["ros__parameters"]["nodes"])
    }
    assert set(entries.values()) <= set(NODES)
    for pattern, values in content.items():
        name = pattern.removeprefix("/**/") if "*" in pattern else entries[pattern.strip("/")]
        known = declared(NODES[name])
        for parameter, value in values["ros__parameters"].items():
            if parameter.startswith(NODES[name].PARAMETER_PREFIXES):
                continue  # known once a model is loaded
            assert isinstance(value, type(known[parameter].default)), (pattern, parameter)
            assert known[parameter].problem(value) is None


def test_the_rviz_view_shows_images_of_nodes_that_exist():
    view = yaml.safe_load((CONFIG / "newfound.rviz").read_text())
    topics = [d["Topic"]["Value"] for d in view["Visualization Manager"]["Displays"]]
    assert topics[0] == "/camera/image_raw"
    for topic in topics[1:]:
        _, camera, node, output = topic.split("/")
        assert (camera, output) == ("camera", "debug_image")
        assert node in NODES


def test_the_foxglove_layout_shows_topics_of_nodes_that_exist():
    layout = json.loads((CONFIG / "foxglove.json").read_text())
    topics = re.findall(r"/[a-z_]+/[a-z_]+(?:/[a-z_]+)*", json.dumps(layout))
    assert len(topics) == 7
    for topic in topics:
        node, output = re.fullmatch(r"(?:/camera)?/([a-z]+_[a-z_]+)/(.+)", topic).groups()
        # Annotations exist where foxglove_msgs is installed.
        assert output in {**NODES[node].OUTPUTS, **DEBUG_OUTPUTS, "annotations": ()}, topic
    panels = re.findall(r'"([A-Za-z0-9]+![a-z]+)"', json.dumps(layout["layout"]))
    assert sorted(panels) == sorted(layout["configById"])


def test_the_file_for_a_robot_without_a_gpu_differs_only_in_what_costs_time():
    gpu, cpu = (
        yaml.safe_load((CONFIG / name).read_text()) for name in ("robot.yaml", "robot_cpu.yaml")
    )
    assert "cuda" not in str(cpu)
    for content in (gpu, cpu):
        for values in content.values():
            for costly in ("device", "max_rate", "learning_threads"):
                values["ros__parameters"].pop(costly, None)
    assert gpu == cpu
