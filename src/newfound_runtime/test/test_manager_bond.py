# SPDX-License-Identifier: Apache-2.0
"""With the real bondpy where it is installed, else with a stand-in of its interface."""

from types import SimpleNamespace

import pytest
from std_msgs.msg import Empty

from newfound_runtime import manager_bond
from newfound_runtime.testing import ACTIVE, INACTIVE, UNCONFIGURED, Echo, eventually

NODE = "/echo"


class StandIn:
    """Bond of bondpy, as far as it is used."""

    made: list["StandIn"] = []  # noqa: RUF012

    def __init__(self, node, topic, bond_id, on_broken=None):
        self.topic, self.id, self.on_broken, self.state = topic, bond_id, on_broken, "new"
        self.pub = node.create_publisher(Empty, topic, 1)
        self.sub = node.create_subscription(Empty, topic, lambda _: None, 1)
        self.made.append(self)

    def start(self):
        self.state = "started"

    def shutdown(self):
        self.state = "shut down"
        self.sub.destroy()
        self.pub.destroy()
        self.on_broken()  # as bondpy does when it breaks the bond itself


@pytest.fixture
def bonds(monkeypatch):
    monkeypatch.setattr(manager_bond, "bondpy", SimpleNamespace(Bond=StandIn))
    monkeypatch.setattr(manager_bond, "AVAILABLE", True)
    monkeypatch.setattr(StandIn, "made", [])
    return StandIn.made


def test_a_node_is_bonded_under_its_name_while_it_is_active(ros, bonds):
    node = ros.started(Echo, bond_heartbeat_period=0.25)
    [bond] = bonds
    assert (bond.topic, bond.id, bond.state) == ("bond", "echo", "started")
    assert (bond.heartbeat_period, bond.heartbeat_timeout) == (0.25, 4.0)
    assert ros.change(NODE, "deactivate")
    assert bond.state == "shut down"
    assert bond.sub not in list(node.subscriptions)
    assert bond.pub not in list(node.publishers)
    assert ros.change(NODE, "activate")
    assert [each.state for each in bonds] == ["shut down", "started"]
    assert not ros.logged("no bond with a lifecycle manager")
    bonds[1].on_broken()
    eventually(lambda: ros.logged("no bond with a lifecycle manager on /bond"))
    assert ros.state(NODE) == ACTIVE


def test_without_a_period_there_is_no_bond(ros, bonds):
    ros.started(Echo)
    assert bonds == []


def test_a_bond_without_bondpy_is_refused_with_the_reason(ros, monkeypatch):
    monkeypatch.setattr(manager_bond, "AVAILABLE", False)
    node = ros.add(Echo, bond_heartbeat_period=0.25)
    eventually(lambda: ros.logged("bondpy is not installed"))
    assert node.state() == UNCONFIGURED


@pytest.mark.skipif(not manager_bond.AVAILABLE, reason="bondpy is not among the wheels of ROS")
def test_a_manager_hears_heartbeats_and_of_a_deactivation(ros):
    from bond.msg import Status

    heard, manager = ros.collect(Status, "/bond"), ros.publisher(Status, "/bond")
    node = ros.started(Echo, bond_heartbeat_period=0.1)

    def beat(number):
        manager.publish(Status(id="echo", instance_id=f"manager {number}", active=True))
        own = [m for m in heard if not m.instance_id.startswith("manager")]
        return len({m.instance_id for m in own}) == number and own[-1].active

    for number in (1, 2):
        eventually(lambda number=number: beat(number), "heartbeats")
        assert heard[-1].id == "echo"
        assert ros.change(NODE, "deactivate")
        eventually(lambda: not heard[-1].active, "the end of the bond")
        assert node.state() == INACTIVE
        assert ros.change(NODE, "activate")
    assert not ros.logged("no bond with a lifecycle manager")
