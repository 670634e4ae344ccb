# SPDX-License-Identifier: Apache-2.0
"""Furnished rooms of four buildings in three lightings, and a camera that looks around them."""
