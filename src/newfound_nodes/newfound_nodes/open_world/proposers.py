# SPDX-License-Identifier: Apache-2.0
"""Proposers by the name of the parameter."""

from newfound_core.detection.depth_relief import DepthRelief
from newfound_core.detection.proposals import Proposer
from newfound_core.detection.whole_image import WholeImage
from newfound_core.errors import ConfigError
from newfound_nodes.model_node import find_checkpoint
from newfound_nodes.open_world.settings import Param, relief_config


def make_proposer(param: Param) -> Proposer:
    """The proposer that is asked for; raises a NewfoundError if its model cannot be loaded."""
    name = param("proposer")
    if name == "depth":
        return DepthRelief(relief_config(param))
    if name == "rpn":
        from newfound_core.detection.region_proposer import load_region_proposer

        if not param("proposer_checkpoint"):
            raise ConfigError(
                "the proposer rpn needs a model: set proposer_checkpoint to a folder of "
                "train_detector or to a file with torchvision's weights"
            )
        model = find_checkpoint(param("proposer_checkpoint"))
        return load_region_proposer(str(model), param("device"))
    return WholeImage()
