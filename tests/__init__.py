# SPDX-License-Identifier: Apache-2.0
"""What crosses packages."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent  # of the repository
