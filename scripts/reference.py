# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference.md from the nodes themselves: each is made, and asked what it has.

python -m scripts.reference
"""

import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import rclpy
from rcl_interfaces.msg import ParameterDescriptor, ParameterType
from rclpy.action import get_action_server_names_and_types_by_node
from rclpy.qos import DurabilityPolicy, QoSProfile

from newfound_runtime.container import GROUP
from newfound_runtime.managed_node import ManagedNode

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference.md"
INTERFACES = ROOT / "src/newfound_msgs"
ORDER = (
    "adaptive_classifier",
    "place_categorizer",
    "open_world_detector",
    "segmenter",
    "object_memory",
    "curator",
    "console",
    "web_query",
    "sim_camera",
)
PAGES = {"curator": "open_world_loop"}  # else the name of the node
OF_EVERY_NODE = ("lifecycle_msgs", "rcl_interfaces", "type_description_interfaces")
LIMIT = 2**63 - 1  # of an integer range that is open on one side
TYPES = {
    value: name.removeprefix("PARAMETER_").lower()
    for name, value in vars(ParameterType).items()
    if name.startswith("PARAMETER_")
}
HEAD = """# Reference

Nodes, topics, services, actions, parameters and interfaces. This page is made from the code by
`make reference`, and a test fails when it no longer fits.

- `~/x` is a topic or service below the node's own name: `/camera/adaptive_classifier/x`.
- Every node is a lifecycle node, with the services of one (`~/change_state` and so on) and those
  of its parameters, and publishes `/diagnostics` once a second.
- Where `vision_msgs` is installed, results are also published in its types; see each node's page.
- A parameter that is *live* can change at any time. The others are read when the node is
  configured; setting them later is refused, with the reason.
"""


def page() -> str:
    """The whole page."""
    context = rclpy.Context()
    rclpy.init(context=context)
    try:
        sections = [_node_section(kind, context) for kind in _kinds()]
    finally:
        rclpy.shutdown(context=context)
    return "\n".join([HEAD, *sections, _interfaces()])


def _kinds() -> list[type[ManagedNode]]:
    """Every node that a container of ours can run."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    names = sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else 99, name))
    return [found[name].load() for name in names]


def _node_section(kind: type[ManagedNode], context: Any) -> str:
    node = kind(context=context)
    try:
        first_line = (sys.modules[kind.__module__].__doc__ or "").strip().splitlines()[0]
        guide = PAGES.get(kind.NAME, kind.NAME)
        return "\n".join(
            [
                f"## {kind.NAME}\n",
                f"{first_line} See [{guide}.md]({guide}.md).\n",
                *_table(("name", "kind", "type", ""), _endpoints(node)),
                *_table(("parameter", "type", "default", "values", "live", ""), _parameters(node)),
            ]
        )
    finally:
        node.destroy_node()


def _endpoints(node: ManagedNode) -> list[tuple[str, ...]]:
    """What comes in, what goes out, and what can be asked for."""
    rows = [
        (
            f"parameter `{name}`",
            "subscribes",
            "",
            _plain(node.describe_parameter(name).description),
        )
        for name in _names(node)
        if name.endswith("_topic")
    ]
    for message_type, topic, profile in node.outputs().values():
        interface = _type_name(message_type)
        if not interface.startswith("vision_msgs/"):
            note = "Latched. " if _latched(profile) else ""
            rows.append(_endpoint(node, topic, "publishes", interface, note))
    for service in node.services:
        interface = _type_name(service.srv_type)
        if not interface.startswith(OF_EVERY_NODE):
            rows.append(_endpoint(node, service.srv_name, "service", interface))
    own = node.get_name(), node.get_namespace()
    for name, types in get_action_server_names_and_types_by_node(node, *own):
        rows.append(_endpoint(node, name, "action", types[0]))
    return rows


def _endpoint(node: Any, name: str, kind: str, interface: str, note: str = "") -> tuple[str, ...]:
    private = f"{node.get_fully_qualified_name()}/"
    shown = name.replace(private, "~/", 1) if name.startswith(private) else name
    return f"`{shown.removeprefix('/')}`", kind, f"`{interface}`", note + _purpose(interface)


def _latched(profile: QoSProfile | int) -> bool:
    latched = DurabilityPolicy.TRANSIENT_LOCAL
    return isinstance(profile, QoSProfile) and profile.durability == latched


def _parameters(node: ManagedNode) -> list[tuple[str, ...]]:
    rows = []
    for name in _names(node):
        described = node.describe_parameter(name)
        when, _, choices = described.additional_constraints.partition("; one of: ")
        rows.append(
            (
                f"`{name}`",
                TYPES[described.type].replace("_", " "),
                f"`{_value(node.get_parameter(name).value)}`",
                choices or _range(described),
                "yes" if when == "can change at run time" else "",
                _plain(described.description),
            )
        )
    return rows


def _names(node: ManagedNode) -> list[str]:
    """The parameters that are ours, as they were declared."""
    return [p.name for p in (*node.PARAMETERS, *node.COMMON_PARAMETERS)]


def _plain(text: str) -> str:
    """Text that Markdown leaves alone."""
    return text.replace("<", "&lt;").replace("|", "\\|")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(v) for v in value)}]"
    return '""' if value == "" else str(value)


def _range(described: ParameterDescriptor) -> str:
    """From, to, or both."""
    limits = [*described.integer_range, *described.floating_point_range]
    if not limits:
        return ""
    low, high = limits[0].from_value, limits[0].to_value
    if high >= LIMIT:
        return f"at least {low}"
    return f"at most {high}" if low <= -LIMIT else f"{low} to {high}"


def _interfaces() -> str:
    files = [
        file for kind in ("msg", "srv", "action") for file in sorted((INTERFACES / kind).glob("*"))
    ]
    rows = [
        (
            f"[{file.stem}](../{file.relative_to(ROOT)})",
            file.parent.name,
            _purpose(f"newfound_msgs/{file.parent.name}/{file.stem}"),
        )
        for file in files
    ]
    return "\n".join(["## Interfaces\n", *_table(("newfound_msgs", "kind", ""), rows)])


def _purpose(interface: str) -> str:
    """The first sentence of an interface of ours."""
    package, kind, name = interface.split("/")
    file = INTERFACES / kind / f"{name}.{kind}"
    if package != INTERFACES.name or not file.exists():
        return ""
    lines = file.read_text().splitlines()
    comment = " ".join(line[2:] for line in lines[: lines.index("")])
    sentence, end, _ = comment.partition(". ")
    return sentence + end.strip()


def _type_name(interface: type) -> str:
    package, kind, *_ = interface.__module__.split(".")
    return f"{package}/{kind}/{interface.__name__}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    cells = [head, ("---",) * len(head), *rows]
    return [*(f"| {' | '.join(row)} |" for row in cells), ""]


if __name__ == "__main__":
    PAGE.write_text(page())
