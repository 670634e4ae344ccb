# SPDX-License-Identifier: Apache-2.0
"""The curator: asks what unknown objects are, and has learned what a person confirms."""
