# SPDX-License-Identifier: Apache-2.0
"""What happened in the demo, in numbers."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from newfound_msgs import msg
from scripts.demo.judging import Sighting, share, sightings
from scripts.demo.light import ADAPTING, FROZEN, LitThings
from scripts.demo.person import Person
from scripts.demo.table import RealTable
from scripts.demo.witness import Heard, Witness

MOST = 0.5  # the share of frames that is called most of them
BEFORE_AND_AFTER = 13.0  # s on the clip's time line of the two pictures in the report
OTHER_LIGHT = 23.0  # s on the clip's time line from which the lamp at the side alone shines


@dataclass(frozen=True)
class Shown:
    """A frame, and what the detector said of it."""

    jpeg: bytes
    detections: msg.OpenWorldDetections
    clip_time: float


@dataclass(frozen=True)
class Story:
    """Everything the report is made of."""

    new: str
    known: Sequence[str]
    first_pass: float  # s since the demo began
    second_pass: float
    events: dict[str, float]  # in their order
    decision: str
    images: int  # fetched
    seen: Sequence[Sighting]
    lit: LitThings
    table: RealTable
    before: Shown | None
    after: Shown | None

    def of(self, labels: Sequence[str], second: bool) -> list[Sighting]:
        """Sightings of classes in one of the passes."""
        learned = self.events.get("learned", self.second_pass)
        return [
            s for s in self.seen
            if s.label in labels and (s.at >= self.second_pass if second else s.at < learned)
        ]  # fmt: skip

    def shares(self) -> dict[str, float]:
        """The numbers that say whether it worked, as shares of frames."""
        new = [self.new]
        other_light = [s for s in self.of(new, True) if s.clip_time >= OTHER_LIGHT]
        return {
            "unknown_before": share(self.of(new, False), "unknown"),
            "called_known_before": share(self.of(new, False), "wrong"),
            "recognised_after": share(self.of(new, True), "right"),
            "recognised_in_other_light": share(other_light, "right"),
            "known_right_before": share(self.of(self.known, False), "right"),
            "known_right_after": share(self.of(self.known, True), "right"),
        }

    def missing(self) -> list[str]:
        """What is not as it should be; empty when the loop closed and the light was followed."""
        shares, adapting, frozen = self.shares(), *map(self.lit.accuracy, (ADAPTING, FROZEN))
        steps = ("unknown", "asked", "decided", "fetched", "learning", "learned", "recognised")
        kept = min(shares["known_right_before"], shares["known_right_after"])
        checks = {f"the {self.new} was never {step}": step in self.events for step in steps} | {
            "known things were not recognised in most frames": kept > MOST,
            f"the {self.new} was not unknown in most frames": shares["unknown_before"] > MOST,
            f"the {self.new} is not recognised in most frames": shares["recognised_after"] > MOST,
            f"the {self.new} is not recognised in the other light": (
                shares["recognised_in_other_light"] > MOST
            ),
            "no image was fetched": self.images > 0,
            "the classifiers did not see the light change": adapting is not None,
            "adapting did not help in the new light": (
                adapting is None or frozen is None or adapting.recovered > frozen.recovered
            ),
        }
        return [what for what, good in checks.items() if not good]

    def summary(self) -> dict[str, Any]:
        """For report.json and the terminal."""
        return {
            "closed": not self.missing(),
            "new_class": self.new,
            "label": self.decision,
            "images_fetched": self.images,
            "seconds_at": {name: round(at, 1) for name, at in self.events.items()},
            "frames_judged": {
                "before": len(self.of([self.new], False)),
                "after": len(self.of([self.new], True)),
            },
            **{name: round(value, 3) for name, value in self.shares().items()},
            "light_change": {
                name: {k: round(v, 3) for k, v in asdict(found).items()}
                for name in (ADAPTING, FROZEN)
                if (found := self.lit.accuracy(name)) is not None
            },
            "real_recording": self.table.summary(),
        }


def tell(
    witness: Witness, person: Person, new: str, known: Sequence[str], passes: tuple[float, float]
) -> Story:
    """Make a story of what was heard in two passes that began at these times."""
    first, second = passes
    seen = sightings(witness.detections, witness.truths)
    unknown_id = next(h.message.unknown_id for h in witness.status if h.message.label == new)
    decided_at, decision = person.decided[new]
    ours = [h for h in witness.status if h.message.unknown_id == unknown_id]
    right = [s for s in seen if s.label == new and s.verdict == "right" and s.at > second]
    states = msg.LabelProposal
    moments = {
        "camera": first,
        "appears": _first(seen, lambda s: s.label == new),
        "unknown": _first(witness.unknowns, lambda h: h.message.id == unknown_id),
        "asked": _first(ours, lambda h: h.message.state == states.STATE_ASKING),
        "proposed": _first(ours, lambda h: h.message.state == states.STATE_WAITING),
        "decided": decided_at,
        "fetched": _first(ours, lambda h: h.message.state == states.STATE_SUBMITTING),
        "learning": _first(ours, lambda h: h.message.state == states.STATE_LEARNING),
        "learned": _first(ours, lambda h: h.message.state == states.STATE_LEARNED),
        "recognised": right[0].at if right else None,
    }
    return Story(
        new=new,
        known=known,
        first_pass=first,
        second_pass=second,
        events={name: at for name, at in moments.items() if at is not None},
        decision=decision,
        images=max((h.message.images for h in ours), default=0),
        seen=seen,
        lit=witness.lit,
        table=witness.table,
        before=_picture(witness, [s for s in seen if s.label == new and s.verdict == "unknown"]),
        after=_picture(witness, right),
    )


def _first(found: Sequence[Any], wanted: Callable[[Any], bool]) -> float | None:
    return next((entry.at for entry in found if wanted(entry)), None)


def _picture(witness: Witness, found: Sequence[Sighting]) -> Shown | None:
    """The frame among these that shows the bench as the report wants it."""
    shown = [s for s in found if s.frame in witness.pictures]
    if not shown:
        return None
    best = min(shown, key=lambda s: abs(s.clip_time - BEFORE_AND_AFTER))
    heard: Heard = next(h for h in witness.detections if h.at == best.at)
    return Shown(witness.pictures[best.frame], heard.message, best.clip_time)
