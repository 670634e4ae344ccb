# SPDX-License-Identifier: Apache-2.0
"""The perception nodes of newfound and the curator."""
