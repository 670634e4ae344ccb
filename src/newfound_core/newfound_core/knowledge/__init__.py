# SPDX-License-Identifier: Apache-2.0
"""What a robot knows, on disk: versions of an open-world checkpoint, one of them current.

    <root>/versions/000007/    a checkpoint, never changed once it is there
    <root>/current             relative link to the version in use, replaced atomically
    <root>/jobs/<id>/          learning jobs (newfound_core.learning.job)
    <root>/unknowns/           unknown objects (newfound_core.detection.unknown_store)
    <root>/lock                held by the one process that uses the folder

`knowledge_base` keeps the versions, `labels` says when two labels are the same; neither imports
torch or OpenCV. `contents` reads a version as a model.
"""
