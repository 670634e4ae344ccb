# SPDX-License-Identifier: Apache-2.0
"""Where labels and images come from: one module for each source, behind two small contracts."""
