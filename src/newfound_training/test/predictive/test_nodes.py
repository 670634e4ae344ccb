# SPDX-License-Identifier: Apache-2.0
import numpy as np
import torch

from newfound_core.models import load_model
from newfound_core.predictive import Schema, StemAxes
from newfound_core.predictive.metadata import Field
from newfound_core.predictive.stem_fields import StemMeasurer
from newfound_core.testing import tiny
from newfound_training.predictive.nodes import DomainImages, assemble, measure_domain


def test_a_graph_of_some_domains_knows_nothing_of_the_others(tmp_path):
    loaded = load_model(tiny(tmp_path / "source"))
    noise = np.random.default_rng(0).integers(0, 255, (20, 32, 32, 3))
    parts = [
        measure_domain(
            loaded,
            DomainImages(
                str(light), {"light": str(light)}, list((noise * light).astype(np.uint8))
            ),
            "stem",
            0,
        )
        for light in (1.0, 0.6, 0.3, 0.1)
    ]
    graph, measured = assemble(Schema((Field("light"),)), parts[:3])
    measurer = StemMeasurer(loaded.model.backbone, loaded.metadata.preprocessing)
    stems = [measurer.statistics(of.domain.images) for of in parts[:3]]
    expected = StemAxes.fitted(stems)
    assert graph.axes is not None
    torch.testing.assert_close(graph.axes.centre, expected.centre)
    torch.testing.assert_close(graph.axes.directions.abs(), expected.directions.abs())
    assert graph.schema.names == ("light", "stem_1", "stem_2")
    places = [[image["stem_1"] for image in of] for of in measured]
    nodes = [node.metadata["stem_1"] for node in graph.nodes]
    np.testing.assert_allclose([np.mean(of) for of in places], nodes)
    np.testing.assert_allclose(np.ptp(nodes), 1, atol=1e-3)
