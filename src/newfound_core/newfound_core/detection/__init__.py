# SPDX-License-Identifier: Apache-2.0
"""From camera images to objects: known ones with a label, unknown ones with an id.

`depth_segments` (with `depth_geometry`, `support_surfaces`, `segment_joining`),
`region_proposer` and `fused_proposer` find boxes (`proposals`), `crops` cuts and embeds them,
`detector` labels them, `tracking` follows them over frames, and `unknown_store` keeps those of no
known class (`unknown_objects`).
"""
