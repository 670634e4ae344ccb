# SPDX-License-Identifier: Apache-2.0
"""Furniture by the kind of room it is found in; every function makes one piece."""
