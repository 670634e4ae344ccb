# SPDX-License-Identifier: Apache-2.0
"""Tasks stored as one bit per weight of a network they share (BAT).

M. Mancini, E. Ricci, B. Caputo, S. Rota Bulò, "Adding New Tasks to a Single Network with Weight
Transformations using Binary Masks", ECCV workshops 2018, arXiv:1805.11119, and "Boosting Binary
Masks for Multi-Domain Learning through Affine Transformations", MVA 2020, arXiv:2103.13894.
"""
