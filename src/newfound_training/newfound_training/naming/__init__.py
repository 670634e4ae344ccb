# SPDX-License-Identifier: Apache-2.0
"""Names for unknown objects: training-free namers, CuMix, and their evaluation."""
