# SPDX-License-Identifier: Apache-2.0
"""Semantic segmentation that learns classes one after the other (MiB).

F. Cermelli, M. Mancini, S. Rota Bulò, E. Ricci, B. Caputo, "Modeling the Background for
Incremental Learning in Semantic Segmentation", CVPR 2020, arXiv:2002.00718; also a chapter of
M. Mancini's thesis.
"""

BACKGROUND = "background"  # the first label of every network
UNLABELLED = 255  # in label images: not known; in predicted masks: rejected
