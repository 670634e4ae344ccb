# SPDX-License-Identifier: Apache-2.0
"""Training the network that finds objects without naming them."""
