# SPDX-License-Identifier: Apache-2.0
"""From a camera image to objects: where something is, what it is, and whether it is known.

`proposals` is the contract of everything that finds objects (`whole_image`, `depth_relief`,
`region_network`), `regions` turns boxes into features, `tracking` follows objects over frames,
`unknowns` gathers those that nobody has named, `detector` ties the first three together.
"""
