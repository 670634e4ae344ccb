# SPDX-License-Identifier: Apache-2.0
"""The operator's page: a node and a web server in one process."""
