# SPDX-License-Identifier: Apache-2.0
"""The object memory: where things were seen."""
