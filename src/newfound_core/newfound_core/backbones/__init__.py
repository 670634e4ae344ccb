# SPDX-License-Identifier: Apache-2.0
"""Networks by name, all behind one contract: `build_backbone("resnet18") -> Backbone`."""

from newfound_core.backbones.build import available_backbones, build_backbone
from newfound_core.backbones.contract import Backbone

__all__ = ["Backbone", "available_backbones", "build_backbone"]
