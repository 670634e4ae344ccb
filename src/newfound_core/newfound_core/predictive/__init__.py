# SPDX-License-Identifier: Apache-2.0
"""AdaGraph: normalisation statistics predicted from the description of a domain.

graph = load_model(folder, "adagraph").model.domain_graph()
found = graph.predict({"light": "cloudy", "camera": "webcam"})
onda.start_from(found.statistics, "cloudy webcam", prior_frames=graph.config.prior_frames)
"""

from newfound_core.predictive.graph import DomainGraph, GraphConfig, Node, Prediction
from newfound_core.predictive.metadata import Field, Metadata, Schema
from newfound_core.predictive.model import AdaGraphClassifier
from newfound_core.predictive.regression import RegressionConfig
from newfound_core.predictive.stem_fields import Measurer, StemAxes

__all__ = [
    "AdaGraphClassifier",
    "DomainGraph",
    "Field",
    "GraphConfig",
    "Measurer",
    "Metadata",
    "Node",
    "Prediction",
    "RegressionConfig",
    "Schema",
    "StemAxes",
]
