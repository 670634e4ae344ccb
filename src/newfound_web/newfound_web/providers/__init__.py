# SPDX-License-Identifier: Apache-2.0
"""Label and image providers: one module per source, behind two small interfaces."""
