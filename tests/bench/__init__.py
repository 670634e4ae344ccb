# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: ratios of things measured side by side in one run, because machines are noisy."""
