# SPDX-License-Identifier: Apache-2.0
"""What every command shares: options, device, training loop, resuming, results."""
