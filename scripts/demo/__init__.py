# SPDX-License-Identifier: Apache-2.0
"""`make demo`: the open-world loop on the simulated camera, with a report."""
