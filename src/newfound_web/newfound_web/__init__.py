# SPDX-License-Identifier: Apache-2.0
"""Label and image providers, on the web and local, behind the lifecycle node `web_query`.

Only `async_services`, `parameters` and `web_query` import ROS; only `vision` imports torch.
"""
