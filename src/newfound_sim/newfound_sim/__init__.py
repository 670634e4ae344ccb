# SPDX-License-Identifier: Apache-2.0
"""Rendered worlds with true labels, boxes, masks and depth, in controlled domains."""
