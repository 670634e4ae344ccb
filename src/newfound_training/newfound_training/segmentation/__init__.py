# SPDX-License-Identifier: Apache-2.0
"""Semantic segmentation: training, evaluation of incremental steps, learning one class."""
