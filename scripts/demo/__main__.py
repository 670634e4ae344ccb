# SPDX-License-Identifier: Apache-2.0
"""The open-world loop from the first frame to the report; exit code 0 only if it closed.

The container plays the demo clip over DDS and runs every node on it. A scripted person, who
knows the truth, answers the curator. First pass: known things, a teapot nobody has shown to the
robot. Then the teapot is learned; second pass: it is recognised. Then two classifiers run
as the light changes, one of which adapts. Last, a real recording: the camera is played, the tables
are not.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import rclpy
from rclpy.signals import SignalHandlerOptions

from newfound_msgs.msg import LabelProposal
from scripts.demo import story
from scripts.demo.person import Person
from scripts.demo.report import draw
from scripts.demo.stack import ROOT, SCREENSHOT, StackEndedError, running
from scripts.demo.witness import DemoError, Witness

NEW = "teapot"  # in the clip, and in no model that we ship
START, ASK, CLIP, LEARN = 240.0, 180.0, 120.0, 600.0  # s; limits of the parts
NODES = ("/camera/sim_camera", "/hand/sim_camera", "/table/sim_camera", "/adaptive_classifier",
         "/frozen_classifier", "/table_detector", "/web_query", "/curator")  # fmt: skip
AFTERGLOW = 2.0  # s in which answers may come after the last frame
LAST_LOOK = 31.0  # s on the clip's time line at which enough was seen


def say(text: str) -> None:
    """A line of progress."""
    print(f"demo: {text}", flush=True)


def loop(witness: Witness) -> story.Story:
    """Both passes; what happened."""
    say("the nodes start")
    witness.until(lambda: witness.knowledge, "the detector", START)
    known = [c.label for c in witness.knowledge[0].message.classes]
    say(f"the detector knows {len(known)} classes: {', '.join(known)}")
    for node in NODES:
        witness.wait_for(node, START)
    person = Person(witness, say)
    witness.play()
    first = witness.now()
    say("the camera plays 40 s of the simulated workbench")
    witness.until(lambda: asked(witness, person), f"a question about the {NEW}", ASK)
    witness.until(lambda: attended(person, witness.ended), "the end of the clip", CLIP)
    say("the clip is over; learning goes on, now with the whole machine")
    witness.until(lambda: attended(person, learned(witness)), f"the {NEW} to be learned", LEARN)
    second = witness.now()
    say(f"the {NEW} is a known class; the camera plays again")
    witness.play()
    witness.until(lambda: attended(person, seen_again(witness)), "the second pass", CLIP)
    say("another camera sees single things; after a while, the light changes")
    witness.play_light()
    witness.until(lambda: witness.lit.ended, "the end of the other clip", CLIP)
    say("a third camera plays a real recording: tables with things on them")
    witness.play_table()
    witness.until(lambda: shown(witness), "the end of the real recording", CLIP)
    rest = witness.now() + AFTERGLOW
    witness.until(lambda: witness.now() > rest, "the last answers", CLIP)
    return story.tell(witness, person, NEW, known, (first, second))


def attended(person: Person, condition: object) -> object:
    """The condition, once the person has answered what was asked meanwhile."""
    person.attend()
    return condition


def asked(witness: Witness, person: Person) -> bool:
    """Whether the person has said what the new thing is; the clip is played until then."""
    person.attend()
    if witness.asks():
        witness.stack.take_screenshot()
    if witness.ended and NEW not in person.decided:  # a busy machine sees few frames
        witness.play()
    return NEW in person.decided


def learned(witness: Witness) -> bool:
    return any(
        h.message.state == LabelProposal.STATE_LEARNED and h.message.label == NEW
        for h in witness.status
    )


def seen_again(witness: Witness) -> bool:
    return witness.ended or witness.clip_time >= LAST_LOOK


def shown(witness: Witness) -> bool:
    """Whether every frame of the real recording was answered; it is played until then."""
    if witness.table.silent_for() > AFTERGLOW:  # a busy machine sees few frames
        witness.play_table()
    return witness.table.answered()


def keep(witness: Witness) -> None:
    """Let the camera play on, and leave the page to a person, until Ctrl-C."""
    witness.play_for_ever()
    say(f"the page is at {witness.stack.address}; end with Ctrl-C")
    with suppress(KeyboardInterrupt):
        while True:  # nothing is listened to any more
            witness.stack.check()
            time.sleep(0.5)


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser("python -m scripts.demo", description="The open-world loop.")
    parser.add_argument("--keep", action="store_true", help="stay afterwards, with the page")
    options = parser.parse_args(arguments)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # several nodes share two cores
    os.environ["ROS_DOMAIN_ID"] = str(random.randrange(1, 102))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("demo: ended by a signal"))
    began = time.monotonic()
    with running() as stack:
        # Ctrl-C and SIGTERM end this process as they end any; `running` then ends the nodes.
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        try:
            say(f"watch it in a browser: {stack.address}")
            witness = Witness(stack)
            told = loop(witness)
            code = report(told, time.monotonic() - began)
            if options.keep:
                keep(witness)
            return code
        except (DemoError, StackEndedError) as error:
            say(f"failed: {error}")
            return 1
        finally:
            rclpy.try_shutdown()


def report(told: story.Story, seconds: float) -> int:
    """Write demo_report/, and say how it went; the exit code."""
    folder = ROOT / "demo_report"
    draw(told, folder / "report.png")
    summary = {**told.summary(), "seconds": round(seconds, 1)}
    if SCREENSHOT.exists():
        summary["inbox_screenshot"] = SCREENSHOT.name
    (folder / "report.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(json.dumps(summary, indent=2))
    missing = told.missing()
    say("the loop is closed" if not missing else f"the loop did not close: {'; '.join(missing)}")
    say(f"see {folder / 'report.png'}")
    if SCREENSHOT.exists():
        say(f"what a person saw: {SCREENSHOT}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
