# SPDX-License-Identifier: Apache-2.0
"""AdaGraph: graphs of domains made from images and descriptions, and what they are worth."""
