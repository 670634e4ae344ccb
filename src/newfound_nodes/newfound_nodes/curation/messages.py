# SPDX-License-Identifier: Apache-2.0
"""Proposals as messages."""

from collections.abc import Callable, Sequence

from builtin_interfaces.msg import Time
from sensor_msgs.msg import CompressedImage

from newfound_msgs.msg import LabelCandidate, LabelProposal, LabelProposals
from newfound_nodes.curation.proposal import Proposal


def proposal_message(
    proposal: Proposal, progress: float = 0.0, crop: bytes = b""
) -> LabelProposal:
    """One proposal, with the view of the object if there is one to show."""
    picture = CompressedImage(format="jpeg" if crop else "", data=crop)
    candidates = [
        LabelCandidate(label=c.label, confidence=c.confidence, provider=c.provider)
        for c in proposal.candidates
    ]
    return LabelProposal(
        stamp=_time(proposal.since),
        unknown_id=proposal.id,
        state=getattr(LabelProposal, f"STATE_{proposal.phase.upper()}"),
        candidates=candidates,
        label=proposal.label,
        decided_by=proposal.decided_by,
        images=len(proposal.files),
        job_id=proposal.job,
        progress=1.0 if proposal.phase == "learned" else progress,
        crop=picture,
        message=proposal.message,
    )


def proposals_message(
    stamp: Time, proposals: Sequence[Proposal], crop: Callable[[str], bytes]
) -> LabelProposals:
    """All that are open."""
    found = [proposal_message(proposal, crop=crop(proposal.id)) for proposal in proposals]
    return LabelProposals(stamp=stamp, proposals=found)


def _time(seconds: float) -> Time:
    return Time(sec=int(seconds), nanosec=int(seconds % 1 * 1e9))
