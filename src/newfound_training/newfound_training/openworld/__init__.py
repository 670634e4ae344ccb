# SPDX-License-Identifier: Apache-2.0
"""Open-world recognition: classes learned step by step, measured beside classes never shown."""
