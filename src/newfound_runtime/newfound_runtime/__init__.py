# SPDX-License-Identifier: Apache-2.0
"""What every newfound node shares: lifecycle, parameters, image input, diagnostics."""

import os

# Read when torch loads OpenMP. By default its threads spin for a millisecond at every barrier: one
# process alone is faster by a third then, but two of them on two cores take turns spinning and
# come to a frame a second. Set it yourself where one process has the machine.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from newfound_runtime.images import Frame, ImageError
from newfound_runtime.managed_node import LoadError, ManagedNode
from newfound_runtime.parameters import Parameter
from newfound_runtime.perception_node import PerceptionNode

__all__ = ["Frame", "ImageError", "LoadError", "ManagedNode", "Parameter", "PerceptionNode"]
