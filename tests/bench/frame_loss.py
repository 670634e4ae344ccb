# SPDX-License-Identifier: Apache-2.0
"""Camera frames lost between two processes at 30 Hz, best effort, counted by sequence.

Target: none with our Fast DDS profile.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image

from newfound_runtime.testing import Harness, image
from tests import ROOT

QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
END = 2**30  # sequence number of the messages that say it is over


def run(quick: bool) -> list[dict]:
    rows = []
    for width, height in ((640, 480), (1280, 720)):
        for name, profile in (("newfound", str(ROOT / "config/fastdds.xml")), ("default", None)):
            result = measure(profile, seconds=5 if quick else 60, width=width, height=height)
            rows.append({"profile": name, **result})
    return rows


def publish(arguments: argparse.Namespace) -> None:
    """The camera: waits for its listener, then sends on a fixed schedule."""
    rclpy.init()
    node = rclpy.create_node("camera")
    publisher = node.create_publisher(Image, "/frames", QOS)
    message = image(arguments.width, arguments.height)
    while not publisher.get_subscription_count():
        time.sleep(0.01)
    time.sleep(0.5)
    start = time.monotonic()
    frames = int(arguments.seconds * arguments.rate)
    for number in range(frames):
        message.header.stamp.sec = number
        publisher.publish(message)
        time.sleep(max(0.0, start + (number + 1) / arguments.rate - time.monotonic()))
    message = image(8, 8, END)
    for _ in range(20):
        publisher.publish(message)
        time.sleep(0.05)
    rclpy.shutdown()


def count(arguments: argparse.Namespace) -> dict[str, float]:
    """The listener: starts the camera as a process and counts what arrives."""
    command = [sys.executable, "-m", "tests.bench.frame_loss", "--camera"]
    for name in ("seconds", "rate", "width", "height"):
        command += [f"--{name}", str(getattr(arguments, name))]
    rclpy.init()
    node = rclpy.create_node("listener")
    seen: set[int] = set()
    node.create_subscription(Image, "/frames", lambda m: seen.add(m.header.stamp.sec), QOS)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    camera = subprocess.Popen(command, cwd=ROOT)
    try:
        while END not in seen and camera.poll() is None:
            executor.spin_once(timeout_sec=0.5)
    except ExternalShutdownException:
        pass
    finally:
        camera.wait(10)
        rclpy.try_shutdown()
    sent = int(arguments.seconds * arguments.rate)
    received = len(seen - {END})
    return {
        "width": arguments.width,
        "height": arguments.height,
        "seconds": arguments.seconds,
        "sent": sent,
        "received": received,
        "lost": sent - received,
    }


def measure(profile: str | None, **settings: float) -> dict[str, float]:
    """Run a measurement in fresh processes, with this Fast DDS profile or with none."""
    # A domain that no other test of this run uses.
    environment = {**os.environ, "ROS_DOMAIN_ID": str(next(Harness._domains))}
    environment.pop("FASTRTPS_DEFAULT_PROFILES_FILE", None)
    if profile:
        environment["FASTRTPS_DEFAULT_PROFILES_FILE"] = profile
    command = [sys.executable, "-m", "tests.bench.frame_loss"]
    for name, value in settings.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=30)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--camera", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.camera:
        publish(arguments)
    else:
        print(json.dumps(count(arguments)))


if __name__ == "__main__":
    main()
