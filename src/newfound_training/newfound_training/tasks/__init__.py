# SPDX-License-Identifier: Apache-2.0
"""Tasks as deltas of a network that they share: trained, made of fine-tuned ones, compared."""
