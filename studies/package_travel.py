# SPDX-License-Identifier: Apache-2.0
"""A class learned on one robot, exported, and imported on another one.

    python -m studies.package_travel --data grocery50 --out DIR [--namespaces]

Two processes stand for two robots with `models/blank`; `--namespaces` gives each a network of its
own, joined by a virtual cable (needs root). Robot A learns a class from 7 photographs of the
training shops, signs and exports it, and serves the file by HTTP. Robot B knows five other
classes, fetches and imports it. Beside that, B learns the class on site, from 7 photographs of
its own shops, the test split; both are tested on the other photographs of that split. Five draws
of 20 classes on which nothing was trained or chosen.

Writes `result.json`: by row (before, imported, on_site) `named` of `shown` photographs of the
class, `own_named` of `own_shown` of the five classes, `called` of `others` photographs of 14 other
things that were called the class; `imports` that were accepted, `bytes` of the packages.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from newfound_core.detection.crops import crop_features
from newfound_core.detection.detector import Detector
from newfound_core.detection.proposals import WholeImage
from newfound_core.knowledge.contents import read_knowledge
from newfound_core.learning.job import LearningOptions
from newfound_core.packages.__main__ import main as package_command
from newfound_core.packages.keys import SigningKey
from newfound_nodes.open_world.session import OpenWorldSession, SessionConfig
from newfound_runtime.images import decode_file
from newfound_runtime.shipped_models import find_checkpoint
from newfound_runtime.testing import eventually
from newfound_training.openworld.dataset import reported_classes
from studies.bench_robot import NoEvents

DRAWS, OWN, VIEWS, CHOICE_CLASSES, PORT = 5, 5, 7, 30, 8765
ROWS = ("before", "imported", "on_site")


class Groceries:
    """Photographs by split and class, and how a draw divides them."""

    def __init__(self, data: Path, classes: Sequence[str] = ()) -> None:
        self._data = data
        names = sorted(folder.name for folder in (data / "train").iterdir())
        self._classes = list(classes) or reported_classes(names, CHOICE_CLASSES)

    def classes(self, draw: int) -> tuple[str, list[str], list[str]]:
        """The class that travels, those that robot B knows, and the others."""
        order = np.random.default_rng([draw, 21]).permutation(self._classes).tolist()
        return order[0], order[1 : 1 + OWN], order[1 + OWN :]

    def images(self, split: str, label: str, draw: int) -> list[bytes]:
        """All photographs of a class, in the order of a draw."""
        files = sorted((self._data / split / label).iterdir())
        order = np.random.default_rng([draw, len(label)]).permutation(len(files))
        return [files[number].read_bytes() for number in order]


def learn(root: Path, model: str, views: dict[str, list[bytes]]) -> None:
    """Learn classes in a knowledge base, by the checks of any job."""
    config = SessionConfig(root, find_checkpoint(model), learn_in_process=0)
    session = OpenWorldSession(config, Detector(WholeImage()), NoEvents())
    try:
        for label, images in views.items():
            named = {f"{number:02d}.jpg": image for number, image in enumerate(images)}
            job, _ = session.learn(label, "", lambda n=named: (n, ""), LearningOptions())
            eventually(lambda j=job: session.jobs.status(j).state.final, timeout=300)
    finally:
        session.close()


def names(root: Path, images: Sequence[bytes]) -> list[str]:
    """What a knowledge base calls photographs; empty: it rejects them."""
    knowledge = read_knowledge(root / "current")
    rows = crop_features(knowledge.loaded, [decode_file(image) for image in images])
    found = knowledge.model.head.decide(knowledge.model.shaped(rows)).label.tolist()
    return [knowledge.labels[number] if number >= 0 else "" for number in found]


def count(root: Path, groceries: Groceries, draw: int) -> Counter[str]:
    """How photographs that nobody has learned from are named by robot B."""
    label, own, others = groceries.classes(draw)
    found: Counter[str] = Counter()
    for kind, classes in (("", [label]), ("own_", own), ("others", others)):
        shown = [(k, i) for k in classes for i in groceries.images("test", k, draw)[VIEWS:]]
        said = names(root, [image for _, image in shown])
        if kind == "others":
            found["others"], found["called"] = len(said), said.count(label)
            continue
        found[f"{kind}shown"] = len(said)
        found[f"{kind}named"] = sum(k == s for (k, _), s in zip(shown, said, strict=True))
    return found


def robot_a(groceries: Groceries, out: Path, options: argparse.Namespace) -> None:
    """Learn, export and serve; until it is killed."""
    keys = out / "a_keys"
    (out / "robot_a.pub").write_text(SigningKey.create(keys).public.text)
    for draw in range(options.draws):
        label, _, _ = groceries.classes(draw)
        root, file = out / f"a_{draw}", out / "served" / f"{draw}.nfp"
        file.parent.mkdir(exist_ok=True)
        learn(root, options.model, {label: groceries.images("train", label, draw)[:VIEWS]})
        assert package_command(["export", str(root), label, str(file), "--keys", str(keys)]) == 0
    handler = partial(SimpleHTTPRequestHandler, directory=str(out / "served"))
    server = ThreadingHTTPServer((options.address, PORT), handler)
    (out / "a_ready").touch()
    server.serve_forever()


def robot_b(groceries: Groceries, out: Path, options: argparse.Namespace) -> None:
    """Fetch, import and compare."""
    keys = out / "b_keys"
    trusted = keys / "trusted"
    trusted.mkdir(parents=True)
    shutil.copy(out / "robot_a.pub", trusted / "robot_a.pub")  # handed over by a person
    rows = {row: Counter[str]() for row in ROWS}
    imports = size = 0
    for draw in range(options.draws):
        label, own, _ = groceries.classes(draw)
        root, site, file = out / f"b_{draw}", out / f"b_{draw}_site", out / f"b_{draw}.nfp"
        learn(root, options.model, {k: groceries.images("test", k, draw)[:VIEWS] for k in own})
        shutil.copytree(root, site, symlinks=True)
        rows["before"] += count(root, groceries, draw)
        address = f"http://{options.address}:{PORT}/{draw}.nfp"
        with urllib.request.urlopen(address, timeout=30) as answer:
            file.write_bytes(answer.read())
        size += file.stat().st_size
        imports += package_command(["import", str(root), str(file), "--keys", str(keys)]) == 0
        rows["imported"] += count(root, groceries, draw)
        learn(site, options.model, {label: groceries.images("test", label, draw)[:VIEWS]})
        rows["on_site"] += count(site, groceries, draw)
        print({row: dict(found) for row, found in rows.items()}, flush=True)
    result = {"rows": rows, "draws": options.draws, "imports": imports, "bytes": size}
    (out / "result.json").write_text(json.dumps(result, indent=2) + "\n")


@contextmanager
def networks() -> Iterator[tuple[list[str], list[str], str]]:
    """Two network namespaces joined by a cable: commands that run in each, and A's address."""
    first, second = f"nf{os.getpid()}a", f"nf{os.getpid()}b"
    setup = f"""
        set -e
        ip netns add {first}; ip netns add {second}
        ip link add {first} netns {first} type veth peer name {second} netns {second}
        ip -n {first} address add 10.200.0.1/24 dev {first}
        ip -n {second} address add 10.200.0.2/24 dev {second}
        for each in {first} {second}; do
            ip -n $each link set lo up; ip -n $each link set $each up
        done
    """
    try:
        subprocess.run(["sh", "-c", setup], check=True)
        run = ["ip", "netns", "exec"]
        yield [*run, first], [*run, second], "10.200.0.1"
    finally:
        for each in (first, second):
            subprocess.run(["ip", "netns", "delete", each], check=False)


@contextmanager
def one_network() -> Iterator[tuple[list[str], list[str], str]]:
    """Two processes on one machine."""
    yield [], [], "127.0.0.1"


def travel(options: argparse.Namespace) -> int:
    """Run both robots."""
    if options.out.exists():
        shutil.rmtree(options.out)
    options.out.mkdir(parents=True)
    place: Callable = networks if options.namespaces else one_network
    with place() as (at_a, at_b, address):
        command = [sys.executable, "-m", "studies.package_travel", *sys.argv[1:]]
        command += ["--address", address]
        robot = subprocess.Popen([*at_a, *command, "--robot", "a"])
        try:
            while not (options.out / "a_ready").exists():
                if robot.poll() is not None:
                    return 1
                time.sleep(0.2)
            return subprocess.run([*at_b, *command, "--robot", "b"], check=False).returncode
        finally:
            robot.kill()
            robot.wait()


def main() -> int:
    """Run the study, or one robot of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--model", default="blank")
    parser.add_argument("--classes", nargs="*", default=(), help="instead of the reported ones")
    parser.add_argument("--namespaces", action="store_true", help="a network for each robot")
    parser.add_argument("--robot", choices=("a", "b"), help=argparse.SUPPRESS)
    parser.add_argument("--address", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.robot:
        return travel(options)
    run = {"a": robot_a, "b": robot_b}[options.robot]
    run(Groceries(options.data, options.classes), options.out, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
