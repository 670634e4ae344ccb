# SPDX-License-Identifier: Apache-2.0
"""From folders of images to checkpoints, tables and figures; no ROS in here."""
