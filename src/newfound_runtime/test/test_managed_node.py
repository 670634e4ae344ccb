# SPDX-License-Identifier: Apache-2.0
"""What a subclass decides about its outputs and its configuration."""

import threading
from typing import ClassVar

from diagnostic_msgs.msg import DiagnosticStatus
from std_msgs.msg import Header

from newfound_runtime.managed_node import LoadError, ManagedNode
from newfound_runtime.parameters import Parameter
from newfound_runtime.testing import ACTIVE, INACTIVE, UNCONFIGURED, Echo, eventually


class Driver(ManagedNode):
    """Publishes on topics that depend on parameters."""

    NAME = "driver"
    PARAMETERS: ClassVar = (Parameter("fail", False, "Refuse to be configured."),)

    def outputs(self):
        return {"beat": (Header, "heart/beat", 10), **super().outputs()}

    def load(self) -> None:
        self.loader = threading.current_thread()
        if self.param("fail"):
            raise LoadError("the wire is loose: plug it in")


class Plain(Driver):
    NAME = "plain"
    OUTPUTS: ClassVar = {"own": (Header, 10)}


def test_an_output_is_private_unless_the_subclass_names_its_topic(ros):
    beats, own = ros.collect(Header, "/heart/beat"), ros.collect(Header, "/plain/own")
    node = ros.started(Plain)
    eventually(lambda: node.wanted("beat") and node.wanted("own"))
    node.publish("beat", Header(frame_id="public"))
    node.publish("own", Header(frame_id="private"))
    eventually(lambda: beats and own)
    assert (beats[0].frame_id, own[0].frame_id) == ("public", "private")


def test_a_load_error_is_one_line_in_the_log(ros, capfd):
    ros.add(Driver, fail=True, autostart=False)
    assert not ros.change("/driver", "configure")
    assert ros.state("/driver") == UNCONFIGURED
    told = capfd.readouterr().err
    assert "not configured: the wire is loose: plug it in" in told
    assert "Traceback" not in told
    assert ros.set("/driver", fail=False).successful
    assert ros.change("/driver", "configure")


class Reader(ManagedNode):
    """Reads its parameters at once and takes its time with the rest."""

    NAME = "reader"
    PARAMETERS: ClassVar = (
        Parameter("book", "", "What to read."),
        Parameter("speed", 1.0, "How fast.", live=True),
    )
    go_on = threading.Event()

    def load(self) -> None:
        self.speed = self.param("speed")
        assert self.go_on.wait(60)

    def parameters_changed(self, names: set[str]) -> None:
        self.speed = self.param("speed")


def test_a_change_while_the_node_loads_takes_effect_or_is_refused(ros):
    node = ros.add(Reader)
    eventually(lambda: hasattr(node, "speed"), "loading")
    refused = ros.set("/reader", book="Moby Dick")
    assert not refused.successful
    assert "cannot change while it is" in refused.reason
    assert ros.set("/reader", speed=2.0).successful
    node.go_on.set()
    eventually(lambda: node.state() == ACTIVE)
    assert (node.param("book"), node.speed) == ("", 2.0)


class Glass(ManagedNode):
    """Whoever looks at it while it is let go of would see it broken."""

    NAME = "glass"

    def load(self) -> None:
        self.pane = "clear"

    def unload(self) -> None:
        del self.pane
        tick = threading.Thread(target=self._tick)
        tick.start()
        tick.join(0.5)

    def diagnose(self):
        return {"pane": self.pane}


def test_diagnostics_do_not_look_at_what_is_being_unloaded(ros, capfd):
    ros.started(Glass)
    assert ros.change("/glass", "deactivate")
    assert ros.change("/glass", "cleanup")
    assert "diagnose failed" not in capfd.readouterr().err


class Stumbler(Echo):
    """Its activation fails after frames were let in."""

    NAME = "stumbler"

    def activated(self) -> None:
        super().activated()
        raise RuntimeError("stumbled")


def test_an_activation_that_fails_leaves_nothing_open(ros):
    node = ros.add(Stumbler, always=True, autostart=False)
    assert ros.change("/stumbler", "configure")
    assert not ros.change("/stumbler", "activate")
    assert ros.state("/stumbler") == INACTIVE
    assert not node._input.subscribed


def test_the_thread_that_loads_has_ended_before_the_node_is_active(ros):
    """With it end the threads that OpenMP gave it for the model's first pass."""
    node = ros.started(Driver)
    assert not node.loader.is_alive()


def test_a_node_that_could_not_be_configured_says_why_in_diagnostics(ros):
    newest = ros.diagnostics("/echo")
    ros.add(Echo, fail_in="load")
    eventually(lambda: newest() and newest().level == DiagnosticStatus.ERROR)
    assert newest().message == "not configured: RuntimeError: asked to fail in load"
    ros.set("/echo", fail_in="")
    assert ros.change("/echo", "configure")
    eventually(lambda: newest().level == DiagnosticStatus.OK)


def test_a_parameter_that_no_node_has_is_warned_about(ros):
    ros.started(Echo, secondz=1.0, use_sim_time=False)
    eventually(lambda: ros.warnings("/echo"))
    assert ros.warnings("/echo") == [
        "parameter secondz is set but echo has no such parameter: misspelled?"
    ]
