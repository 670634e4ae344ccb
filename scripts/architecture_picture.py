# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/architecture.svg: `python -m scripts.architecture_picture`.

Packages with what they depend on, the way of a frame, and the way of a new class.
"""

from html import escape
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "docs/images/architecture.svg"
WIDTH, HEIGHT, BOX = 1000, 720, 52
COLOURS = {"ros": "#dce8f5", "core": "#fbe9c6", "disk": "#e4e4e4", "person": "#f6d5d5"}


def main() -> None:
    parts = [*packages(), *frame(), *new_class()]
    style = (
        "text{font:13px sans-serif;fill:#222}.t{font-weight:bold;font-size:16px}.s{font-size:11px}"
        "path{stroke:#555;stroke-width:1.4;fill:none;marker-end:url(#a)}rect{stroke:#888}"
    )
    arrow = (
        '<defs><marker id="a" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        '<polygon points="0 0,9 4,0 8" fill="#555"/></marker></defs>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
    white = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white" style="stroke:none"/>'
    FILE.write_text("\n".join([head, f"<style>{style}</style>", arrow, white, *parts, "</svg>\n"]))


def packages() -> list[str]:
    return [
        title(20, 28, "Packages: an arrow leads to what builds on a package"),
        box(20, 50, 160, "newfound_msgs", "messages, services, action"),
        box(20, 160, 160, "newfound_core", "methods, learning; no ROS", "core"),
        box(250, 50, 170, "newfound_runtime", "node base, image input"),
        box(520, 50, 200, "newfound_nodes", "classifier, places, detector, curator"),
        box(520, 115, 200, "newfound_web", "labels and images from the web"),
        box(520, 180, 200, "newfound_sim", "rendered camera; not on a robot"),
        box(250, 200, 170, "newfound_training", "training, evaluation", "core"),
        box(800, 115, 180, "newfound_bringup", "launch, config, models"),
        arrow("M180 76 H250"),
        arrow("M420 70 H520"),
        arrow("M420 80 C470 85 470 135 520 138"),
        arrow("M420 90 C460 100 470 200 520 203"),
        arrow("M180 175 C210 170 210 100 250 90"),
        arrow("M180 186 C350 150 400 95 520 92"),
        arrow("M180 192 C350 175 420 152 520 150"),
        arrow("M180 200 C210 205 210 226 250 226"),
        arrow("M720 76 C760 80 760 130 800 135"),
        arrow("M720 141 H800"),
        arrow("M720 206 C760 200 760 155 800 150"),
    ]


def frame() -> list[str]:
    steps = [
        ("camera", "sensor_msgs/Image", "ros"),
        ("receiver thread", "QoS as the camera offers", "ros"),
        ("one-slot mailbox", "the newest image wins", "ros"),
        ("worker thread", "decode, model, decide", "core"),
        ("publish", "header of the image", "ros"),
    ]
    return [
        title(20, 300, "A frame: no disk, no network, no learning on its way"),
        *row(320, 168, steps),
        note(
            20,
            396,
            "Lifecycle and services have threads of their own, and answer meanwhile.",
        ),
    ]


def new_class() -> list[str]:
    first = [
        ("detector", "unknown in 5 sightings", "core"),
        ("curator", "keeps the proposal", "ros"),
        ("web_query", "query_label: candidates", "ros"),
        ("a person", "confirm_label", "person"),
        ("web_query", "fetch_images", "ros"),
    ]
    second = [
        ("detector", "add_unknown_class", "ros"),
        ("job folder", "label, images, pointer", "disk"),
        ("learning process", "newfound_core.learning", "core"),
        ("check", "known classes lose nothing", "core"),
        ("versions/, current", "switched between frames", "disk"),
    ]
    return [
        title(20, 446, "A new class: from unknown to recognised"),
        *row(466, 168, first),
        arrow("M908 518 V545 H104 V575"),
        *row(575, 168, second),
        note(
            20,
            655,
            "The job survives a crash of either side; the knowledge in use is never half-written. "
            "The next frame is decided with the new version.",
        ),
        *legend(690),
    ]


def legend(y: int) -> list[str]:
    meanings = {
        "ros": "ROS node or message",
        "core": "PyTorch, without ROS",
        "disk": "on disk",
        "person": "a person",
    }
    parts = []
    for number, (kind, meaning) in enumerate(meanings.items()):
        x = 20 + 200 * number
        parts.append(f'<rect x="{x}" y="{y}" width="18" height="14" fill="{COLOURS[kind]}"/>')
        parts.append(note(x + 26, y + 12, meaning))
    return parts


def row(y: int, width: int, steps: list[tuple[str, str, str]]) -> list[str]:
    """Boxes from left to right with arrows between them."""
    parts, gap = [], (WIDTH - 40 - len(steps) * width) / (len(steps) - 1)
    for number, (name, what, kind) in enumerate(steps):
        x = 20 + number * (width + gap)
        parts.append(box(x, y, width, name, what, kind))
        if number:
            parts.append(arrow(f"M{x - gap:.0f} {y + BOX / 2:.0f} H{x:.0f}"))
    return parts


def box(x: float, y: float, width: int, name: str, *text: str) -> str:
    """A box with its name, what it is, and its kind (by default "ros")."""
    what, kind = (*text, "ros")[:2]
    middle = x + width / 2
    return (
        f'<rect x="{x:.0f}" y="{y}" width="{width}" height="{BOX}" rx="6" fill="{COLOURS[kind]}"/>'
        f'<text x="{middle:.0f}" y="{y + 22}" text-anchor="middle">{escape(name)}</text>'
        f'<text x="{middle:.0f}" y="{y + 40}" text-anchor="middle" class="s">{escape(what)}</text>'
    )


def arrow(path: str) -> str:
    return f'<path d="{path}"/>'


def title(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" class="t">{escape(text)}</text>'


def note(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" class="s">{escape(text)}</text>'


if __name__ == "__main__":
    main()
