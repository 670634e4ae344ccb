# SPDX-License-Identifier: Apache-2.0
"""Latent domains: commands around `newfound_core.latent`."""
