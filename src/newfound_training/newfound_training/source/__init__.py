# SPDX-License-Identifier: Apache-2.0
"""`train_source`: a classifier trained on one or more domains, which ONDA then adapts."""
