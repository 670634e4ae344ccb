# SPDX-License-Identifier: Apache-2.0
"""Proposers by the name of the parameter."""

from newfound_core.detection.depth_relief import DepthRelief
from newfound_core.detection.proposals import Proposer
from newfound_core.detection.whole_image import WholeImage


def make_proposer(name: str, checkpoint: str, device: str) -> Proposer:
    """The proposer of this name; raises a NewfoundError if its model cannot be loaded."""
    if name == "depth":
        return DepthRelief()
    if name == "rpn":
        from newfound_core.detection.region_proposer import load_region_proposer
        from newfound_nodes.model_node import find_checkpoint

        return load_region_proposer(str(find_checkpoint(checkpoint)), device)
    return WholeImage()
