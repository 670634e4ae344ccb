# SPDX-License-Identifier: Apache-2.0
"""Classes, versions and jobs as messages."""

from typing import Any

from builtin_interfaces.msg import Time

from newfound_core.knowledge.knowledge_base import ClassNote, VersionNote
from newfound_core.learning.job import JobStatus
from newfound_msgs import msg

_ORIGINS = {"shipped": msg.KnownClass.ORIGIN_SHIPPED, "learned": msg.KnownClass.ORIGIN_LEARNED}


def known_class(label: str, note: ClassNote | None, version: int, **facts: Any) -> msg.KnownClass:
    """A class of a version, by the note that says since when it is known."""
    return msg.KnownClass(
        label=label,
        origin=_ORIGINS[note.origin if note else "shipped"],
        since_version=note.since_version if note else version,
        learned=time_message(int(note.learned * 1e9) if note else 0),
        **facts,
    )


def version_message(version: int, note: VersionNote, in_use: int) -> msg.KnowledgeVersion:
    """One version on disk."""
    return msg.KnowledgeVersion(
        version=version,
        made=time_message(int(note.made * 1e9)),
        reason=note.reason,
        labels=sorted(note.classes),
        in_use=version == in_use,
    )


def learning_message(status: JobStatus, stamp: Time) -> msg.LearningStatus:
    """Where a job is."""
    return msg.LearningStatus(
        stamp=stamp,
        job_id=status.job,
        label=status.label,
        state=getattr(msg.LearningStatus, f"STATE_{status.state.upper()}"),
        progress=status.progress,
        remaining_seconds=-1.0 if status.seconds_left is None else float(status.seconds_left),
        knowledge_version=status.version,
        message=status.message,
    )


def time_message(nanoseconds: int) -> Any:
    """A time message, clamped to what it can hold: 1970 to 2038."""
    seconds, rest = divmod(max(0, nanoseconds), 10**9)
    return Time(sec=min(seconds, 2**31 - 1), nanosec=rest)
