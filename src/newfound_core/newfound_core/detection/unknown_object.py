# SPDX-License-Identifier: Apache-2.0
"""An object that nobody has named yet."""

from dataclasses import dataclass
from typing import Literal

from newfound_core.detection.crops import Crop

# waiting: nobody has said what it is; learning: a job runs or is queued; learned: a class now;
# dismissed: not worth learning; expired: removed because of age or number.
State = Literal["waiting", "learning", "learned", "dismissed", "expired"]


@dataclass(frozen=True)
class UnknownObject:
    """All that is known of it. A value: every change makes a new one."""

    id: str
    state: State
    sightings: int
    first_seen: int  # ns, stamp of the image
    last_seen: int
    seen_at: float  # s since 1970 by the robot's clock, whatever clock the images carry
    frame_id: str  # of the camera
    box: tuple[float, float, float, float]  # at the last sighting
    crops: tuple[Crop, ...]  # best first
    nearest_label: str
    distance: float
    rejection_threshold: float
    label: str = ""  # what it was said to be
