# SPDX-License-Identifier: Apache-2.0
"""Other engines than ONNX Runtime in single precision: `python -m studies.engines --help`.

The shipped models of real photographs, `groceries` and `rooms`, as 8-bit integers (ONNX Runtime's
static quantization, weights per channel, calibrated on training images), and in OpenVINO, if that
is installed. Every image of the test folders goes through each; all take turns on single images
for the times. Writes `result.json`: for each model and engine `accuracy`, the `cosine` between its
outputs and PyTorch's (mean over the images), `ms`, and `ratio` of the time to ONNX Runtime's.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from newfound_core.export import trace_onnx
from newfound_core.models import LoadedModel, load_model
from newfound_core.onnx_runtime import INPUT_NAME, make_session
from newfound_core.open_world.model import OpenWorldModel
from newfound_core.quantization import calibration_batches, quantize
from tests import ROOT
from tests.bench._timing import interleaved, median_ms

MODELS = {"groceries": "grocery50", "rooms": "rooms6"}
Engine = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of grocery50 and rooms6")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=10_000, help="test images of a model")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    result = {name: measure(name, arguments) for name in MODELS}
    text = json.dumps(result, indent=2)
    (arguments.out / "result.json").write_text(text + "\n")
    print(text)


def measure(name: str, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Accuracy and time of every engine on one model."""
    loaded, data = load_model(ROOT / "models" / name), arguments.data / MODELS[name]
    network = loaded.model.backbone if isinstance(loaded.model, OpenWorldModel) else loaded.model
    size = loaded.metadata.preprocessing.size
    graph = trace_onnx(network, torch.zeros(1, 3, size, size))
    train = calibration_batches(loaded, data / "train")
    engines = {
        "onnx": onnx_engine(graph.content, graph.names[0], arguments.threads),
        "onnx, 8 bit": onnx_engine(quantize(graph, train), graph.names[0], arguments.threads),
    }
    if (engine := openvino_engine(graph.content, graph.names[0], arguments.threads)) is not None:
        engines["openvino"] = engine
    test = list(images(loaded, data / "test", arguments.limit))
    found = {engine: quality(run, network, loaded, test) for engine, run in engines.items()}
    turns = {engine: (lambda run=run: run(test[0][0])) for engine, run in engines.items()}
    seconds = interleaved(turns, rounds=100)
    for engine, row in found.items():
        row["ms"] = median_ms(seconds[engine])
        pairs = zip(seconds[engine], seconds["onnx"], strict=True)
        row["ratio"] = float(np.median([a / b for a, b in pairs]))
    return found


def images(loaded: LoadedModel, folder: Path, limit: int) -> Iterator[tuple[np.ndarray, int]]:
    """Prepared images [1, 3, H, W] and their labels, evenly from all classes."""
    files = sorted(f for f in folder.glob("*/*.jpg") if f.parent.name in loaded.labels)
    for file in files[:: max(1, len(files) // limit)][:limit]:
        rgb = cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB)
        yield loaded.prepare([rgb]).numpy(), loaded.labels.index(file.parent.name)


def onnx_engine(content: bytes, output: str, threads: int) -> Engine:
    session = make_session(content, threads=threads)
    return lambda batch: session.run([output], {INPUT_NAME: batch})[0]


def openvino_engine(content: bytes, output: str, threads: int) -> Engine | None:
    try:
        import openvino
    except ImportError:
        return None
    core = openvino.Core()
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    options["INFERENCE_PRECISION_HINT"] = "f32"
    compiled = core.compile_model(core.read_model(content), "CPU", options)
    return lambda batch: compiled(batch)[output]


@torch.no_grad()
def quality(
    run: Engine, network: torch.nn.Module, loaded: LoadedModel, test: list[tuple[np.ndarray, int]]
) -> dict[str, float]:
    """Share of images named right, and the likeness of outputs to those of PyTorch."""
    outputs = torch.from_numpy(np.concatenate([run(batch) for batch, _ in test]))
    expected = torch.cat([_tensor(network(torch.from_numpy(batch))) for batch, _ in test])
    model, classes = loaded.model, len(loaded.labels)
    if isinstance(model, OpenWorldModel):
        named = model.decide_features(outputs).nearest
    else:
        named = outputs[:, :classes].argmax(1)
    right = named == torch.tensor([label for _, label in test])
    cosine = torch.nn.functional.cosine_similarity(outputs, expected).mean()
    return {"accuracy": float(right.double().mean()), "cosine": float(cosine)}


def _tensor(output: Any) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output


if __name__ == "__main__":
    main()
