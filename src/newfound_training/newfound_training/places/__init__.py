# SPDX-License-Identifier: Apache-2.0
"""`train_places` and `evaluate_places`: place categories in buildings never seen in training."""
