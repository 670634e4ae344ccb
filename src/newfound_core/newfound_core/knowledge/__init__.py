# SPDX-License-Identifier: Apache-2.0
"""What a robot knows, on disk: versions of an open-world checkpoint, one of them current.

    <root>/versions/000007/    a checkpoint, never changed once it is there
    <root>/current             relative link to the version in use, replaced atomically
    <root>/jobs/<id>/          learning jobs
    <root>/unknowns/           objects that nobody has named yet
    <root>/lock                held by the one process that uses the folder

`knowledge_base` keeps the versions, `version_note` says how each came about, `folder_lock`
keeps a second process out. These three import neither torch nor OpenCV; `contents` reads a
version as a model.
"""
