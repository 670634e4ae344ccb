# SPDX-License-Identifier: Apache-2.0
"""Asks the web, or a local library, what a thing is called and what it looks like.

All modules but `web_query`, the node, know nothing of ROS; only `vision` needs torch.
"""
