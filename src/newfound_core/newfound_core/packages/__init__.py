# SPDX-License-Identifier: Apache-2.0
"""Knowledge that travels: one signed file, checked before anything of it is used."""

from newfound_core.packages.archive import Package, PackageError, check_trust, pack, unpack

__all__ = ["Package", "PackageError", "check_trust", "pack", "unpack"]
