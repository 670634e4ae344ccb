# SPDX-License-Identifier: Apache-2.0
"""`make demo`: bring up what there is on the simulated camera, watch it, write demo_report/.

A container process plays the demo clip over DDS. This process listens as any robot node would,
checks every frame against the truth that comes with it, and lets ONDA follow the stream with
an ImageNet network: the report shows how far its statistics move when the light changes.
Exit code 0 only if the whole clip arrived and the change of light was seen.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import rclpy
import torch
from sensor_msgs.msg import Image
from std_srvs.srv import Trigger

from newfound_core.imagenet import imagenet_classifier
from newfound_core.onda import Onda, OndaConfig
from newfound_msgs.msg import GroundTruth
from newfound_nodes.images import to_rgb

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "demo_report"
PATIENCE = 120.0  # s without progress before the demo gives up
SHOWN_AT = (2.0, 11.0, 18.0, 21.5, 25.0, 38.0)  # s on the clip's time line


@dataclass
class Watched:
    """What came over DDS: images and truths, brought together by their stamps."""

    images: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    truths: dict[tuple[int, int], GroundTruth] = field(default_factory=dict)
    ended: bool = False

    def see(self, message: Image) -> None:
        """Keep an image at the size of the network's input, and of the report's pictures."""
        rgb = to_rgb(message)
        self.images[stamp(message)] = rgb[::2, ::2].copy()

    def learn(self, message: GroundTruth) -> None:
        """Keep a truth; the last one ends the watching."""
        self.truths[stamp(message)] = message
        self.ended |= message.last

    def frames(self) -> list[tuple[GroundTruth, np.ndarray]]:
        """Truths with their images, in the order of the clip; each frame once."""
        pairs = {t.frame: (t, self.images[s]) for s, t in self.truths.items() if s in self.images}
        return [pairs[number] for number in sorted(pairs)]


def stamp(message: Image | GroundTruth) -> tuple[int, int]:
    """Equal for an image and its truth."""
    return message.header.stamp.sec, message.header.stamp.nanosec


def watch() -> Watched:
    """Start the container, play the clip once from the beginning, return what arrived."""
    parameters = str(ROOT / "config/demo.yaml")
    command = ["-m", "newfound_nodes.container", "--ros-args", "--params-file", parameters]
    container = subprocess.Popen([sys.executable, *command])
    watched = Watched()
    try:
        rclpy.init()
        node = rclpy.create_node("demo")
        node.create_subscription(Image, "/camera/image_raw", watched.see, 50)
        node.create_subscription(GroundTruth, "/camera/ground_truth", watched.learn, 50)
        restart = node.create_client(Trigger, "/camera/sim_camera/restart")
        until(node, restart.service_is_ready, container)
        until(node, lambda: node.count_publishers("/camera/image_raw") > 0, container)
        time.sleep(1.0)  # both sides have found each other
        call = restart.call_async(Trigger.Request())
        until(node, call.done, container)
        print("demo: the camera plays 40 s of the simulated workbench", flush=True)
        until(node, lambda: watched.ended, container)
        node.destroy_node()
    finally:
        rclpy.try_shutdown()
        container.send_signal(signal.SIGINT)
        container.wait(30)
    return watched


def until(node: rclpy.node.Node, done, container: subprocess.Popen) -> None:
    """Spin until it is done; give up when the container has died or nothing happens."""
    end = time.monotonic() + PATIENCE
    while not done():
        rclpy.spin_once(node, timeout_sec=0.5)
        if container.poll() is not None or time.monotonic() > end:
            raise SystemExit("demo: the container ended or stood still; see its output above")


def adapt(frames: list[tuple[GroundTruth, np.ndarray]]) -> list[float]:
    """Let ONDA follow the frames; its mean drift from the source after each of them."""
    torch.set_num_threads(1)  # on a busy machine two threads mostly wait for each other
    network = imagenet_classifier()
    onda = Onda(network.eval(), OndaConfig(estimator="streaming"))
    drift = []
    for _, rgb in frames:
        onda.predict(network.preprocessing(rgb))
        drift.append(onda.drift().mean)
    return drift


def draw(frames: list[tuple[GroundTruth, np.ndarray]], drift: list[float], file: Path) -> None:
    """Six moments of the clip with the true boxes, and the drift over time."""
    figure = plt.figure(figsize=(12, 7.5), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.45, 1])
    times = np.array([truth.scenario_time for truth, _ in frames])
    for axes, moment in zip(top.subplots(2, 3).flat, SHOWN_AT, strict=True):
        truth, rgb = frames[int(np.abs(times - moment).argmin())]
        axes.imshow(rgb)
        axes.set_title(f"{truth.scenario_time:.0f} s: {truth.domain}", fontsize=9)
        axes.axis("off")
        for thing in truth.objects:
            box = thing.region
            x, y, w, h = (v / 2 for v in (box.x_offset, box.y_offset, box.width, box.height))
            axes.add_patch(plt.Rectangle((x, y), w, h, fill=False, color="lime", lw=1))
            axes.text(x, y - 3, thing.label, color="lime", fontsize=6)
    axes = bottom.subplots()
    axes.plot(times, drift)
    changing = [t for (truth, _), t in zip(frames, times, strict=True) if lit_anew(truth)]
    axes.axvspan(
        min(changing), max(changing), color="orange", alpha=0.3, label="the light changes"
    )
    axes.set(xlabel="time on the clip, s", ylabel="mean drift of BN statistics, nats",
             title="ONDA follows the stream: drift from the ImageNet statistics")  # fmt: skip
    axes.legend()
    figure.savefig(file, dpi=100)


def lit_anew(truth: GroundTruth) -> bool:
    """Whether the light is changing in this frame."""
    return truth.illumination != truth.next_illumination


def main() -> int:
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["ROS_DOMAIN_ID"] = str(random.randrange(1, 102))
    watched = watch()
    frames = watched.frames()
    sent = max((truth.frame for truth, _ in frames), default=-1) + 1
    changed = any(lit_anew(truth) for truth, _ in frames)
    if not (frames and changed):
        print(f"demo: failed: {len(frames)} frames, light change seen: {changed}")
        return 1
    print(f"demo: {len(frames)} of {sent} frames arrived; ONDA looks at them", flush=True)
    drift = adapt(frames)
    REPORT.mkdir(exist_ok=True)
    draw(frames, drift, REPORT / "report.png")
    before = [d for (t, _), d in zip(frames, drift, strict=True) if t.scenario_time < 20][-1]
    report = {
        "frames_sent": sent,
        "frames_received": len(frames),
        "classes_seen": sorted({thing.label for truth, _ in frames for thing in truth.objects}),
        "domains_seen": list(dict.fromkeys(truth.domain for truth, _ in frames)),
        "drift_before_light_change": before,
        "drift_at_end": drift[-1],
    }
    (REPORT / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    print(f"demo: see {REPORT / 'report.png'}")
    return 0 if len(frames) == sent else 1


if __name__ == "__main__":
    sys.exit(main())
