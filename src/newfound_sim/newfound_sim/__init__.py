# SPDX-License-Identifier: Apache-2.0
"""Rendered workbenches and rooms with ground truth, and a simulated camera."""
