# SPDX-License-Identifier: Apache-2.0
"""AdaGraph in the adaptive classifier: what a prediction costs, and what every frame pays.

The shipped `sim_workbench_adagraph` on one thread. Target: a prediction with the jump to it below
5 ms; a frame that is measured costs at most 1.2 x a frame of ONDA.
"""

import numpy as np

from newfound_core.models import load_model
from newfound_core.onda import Onda, OndaConfig
from tests import ROOT
from tests.bench._timing import interleaved, median_ms

JUMP = "prediction and jump"


def run(quick: bool) -> list[dict]:
    loaded = load_model(ROOT / "models" / "sim_workbench_adagraph")
    graph = loaded.model.domain_graph()
    measure = loaded.model.measurer(loaded.metadata.preprocessing)
    onda = Onda(loaded.model, OndaConfig.thesis(1000), inline=False)
    image = np.random.default_rng(0).integers(0, 255, (128, 128, 3)).astype(np.uint8)
    known = {"camera": "kinect", **measure(image)}

    def jump() -> None:
        onda.start_from(graph.predict(known).statistics, "bench", prior_frames=10)

    def frame() -> None:
        onda(loaded.prepare([image]))

    def measured_frame() -> None:
        measure(image)
        frame()

    frame()
    turns = {"frame of ONDA": frame, "the same, measured": measured_frame, JUMP: jump}
    times = {n: median_ms(t) for n, t in interleaved(turns, 20 if quick else 200).items()}
    usual = times["frame of ONDA"]
    return [
        {"what": name, "ms": round(time, 2), "x a frame": round(time / usual, 2)}
        for name, time in times.items()
    ]
