# SPDX-License-Identifier: Apache-2.0
"""The methods of newfound as PyTorch modules; no ROS in here.

Modules are imported by name (`from newfound_core.checkpoint import load_checkpoint`), so that
a program pays only for what it uses.
"""
