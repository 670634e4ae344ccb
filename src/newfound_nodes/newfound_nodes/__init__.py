# SPDX-License-Identifier: Apache-2.0
"""Runtime nodes of newfound and the base classes they share."""

from newfound_nodes.images import Frame, ImageError
from newfound_nodes.managed_node import LoadError, ManagedNode
from newfound_nodes.parameters import Parameter
from newfound_nodes.perception_node import PerceptionNode

__all__ = ["Frame", "ImageError", "LoadError", "ManagedNode", "Parameter", "PerceptionNode"]
