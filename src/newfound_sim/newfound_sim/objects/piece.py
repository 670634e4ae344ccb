# SPDX-License-Identifier: Apache-2.0
"""The unit an object is assembled from."""

from typing import NamedTuple

from trimesh import Trimesh

from newfound_sim.materials import Material


class Piece(NamedTuple):
    """A mesh of one material, in the frame of its object."""

    mesh: Trimesh
    material: Material
