# SPDX-License-Identifier: Apache-2.0
"""From camera images to objects: known ones with a label, unknown ones with an id.

`proposals`, `depth_relief` and `region_proposer` find boxes, `crops` cuts and embeds them,
`detector` labels them, `tracking` follows them over frames, and `unknown_store` keeps those of no
known class (`unknown_objects`).
"""
