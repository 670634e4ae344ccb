# SPDX-License-Identifier: Apache-2.0
"""Procedural objects of many classes; no two instances of a class are the same."""

from newfound_sim.objects.catalogue import CLASSES, COARSE, TOOLS, ObjectModel, build

__all__ = ["CLASSES", "COARSE", "TOOLS", "ObjectModel", "build"]
