# SPDX-License-Identifier: Apache-2.0
"""`export`: a checkpoint as a graph for another inference engine."""
