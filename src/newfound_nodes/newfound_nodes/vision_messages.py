# SPDX-License-Identifier: Apache-2.0
"""Results as vision_msgs, where that package is installed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    from vision_msgs.msg import Classification, ObjectHypothesis
except ImportError:
    Classification = ObjectHypothesis = None

AVAILABLE = Classification is not None


def classification(header: Any, labels: Sequence[str], probabilities: np.ndarray) -> Any:
    """A vision_msgs/Classification with all classes, the most probable first."""
    order = np.argsort(-probabilities, kind="stable")
    results = [
        ObjectHypothesis(class_id=labels[index], score=float(probabilities[index]))
        for index in order
    ]
    return Classification(header=header, results=results)
