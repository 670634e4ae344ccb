# SPDX-License-Identifier: Apache-2.0
"""Does the adaptive classifier stay as it is? `python -m studies.soak --minutes 30 --out DIR`.

Runs the node in a process of its own on images at 15 Hz, adaptation on, and notes its memory,
its latency and the processor time that an answer costs, which other work on the machine hardly
touches. Writes `soak.json` (samples: seconds, memory_mb, latency_ms, processor_ms, answers; and a
summary: images sent, answers, growth of memory from the second tenth to the last, latency and
processor time in both, slope of the latency) and `soak.png`.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from newfound_core.testing import usual
from newfound_msgs.msg import Classification
from newfound_runtime.testing import Harness, eventually
from tests.bench._stream import Film, parameters


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        checkpoint = arguments.checkpoint or usual(Path(place) / "model")
        options = {"estimator": arguments.estimator, "balanced": arguments.estimator == "batch"}
        result = soak(checkpoint, 60 * arguments.minutes, arguments.rate, 10.0, **options)
    (arguments.out / "soak.json").write_text(json.dumps(result, indent=2) + "\n")
    draw(result["samples"], arguments.out / "soak.png")
    print(json.dumps(result["summary"], indent=2))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=15.0, help="images per second")
    parser.add_argument("--estimator", choices=("batch", "streaming"), default="batch")
    parser.add_argument("--checkpoint", type=Path, help="default: EfficientNet-Lite0 at 224 px")
    return parser.parse_args()


RUN = "from newfound_runtime.executable import main; main('adaptive_classifier')"


def soak(
    checkpoint: Path, seconds: float, rate: float, every: float, size=(640, 480), **options
) -> dict:
    """Run the node for so long; a sample of memory and latency every so many seconds."""
    harness, film, samples, fresh, answers = Harness(), None, [], [], [0]

    def take(message: Classification) -> None:
        stamp = message.header.stamp
        now = harness.client.get_clock().now().nanoseconds
        fresh.append(1e-6 * (now - stamp.sec * 10**9 - stamp.nanosec))
        answers[0] += 1

    try:
        values = {"checkpoint": checkpoint, **options}
        process = harness.process("-c", RUN, *parameters(**values))
        harness.client.create_subscription(
            Classification, "/adaptive_classifier/classification", take, 50
        )
        film = Film(harness, "/image", rate, size)
        eventually(lambda: answers[0] > 20, "the node answers", timeout=120)
        watched, begin = psutil.Process(process.pid), time.monotonic()
        sent, answered = film.sent, answers[0]
        used, counted = processor_seconds(watched), answers[0]
        while time.monotonic() - begin < seconds:
            time.sleep(every)
            latencies, fresh[:] = list(fresh), []
            before, used = used, processor_seconds(watched)
            earlier, counted = counted, answers[0]
            samples.append({
                "seconds": time.monotonic() - begin,
                "memory_mb": watched.memory_info().rss / 1e6,
                "latency_ms": statistics.median(latencies) if latencies else float("nan"),
                "processor_ms": 1e3 * (used - before) / max(1, counted - earlier),
                "answers": counted - answered,
            })  # fmt: skip
        sent = film.sent - sent
    finally:
        if film is not None:
            film.close()
        harness.close()
    return {"summary": summary(samples, sent), "samples": samples}


def processor_seconds(process: psutil.Process) -> float:
    """What all threads of the process have used."""
    times = process.cpu_times()
    return times.user + times.system


def summary(samples: list[dict], sent: int) -> dict:
    """What a reader wants to know first."""
    tenth = max(1, len(samples) // 10)
    early, late = samples[tenth : 2 * tenth] or samples[:1], samples[-tenth:]
    hours = np.array([sample["seconds"] / 3600 for sample in samples])
    latency = np.array([sample["latency_ms"] for sample in samples])
    known = np.isfinite(latency)
    slope = float(np.polyfit(hours[known], latency[known], 1)[0]) if known.sum() > 1 else 0.0
    return {
        "sent": sent,
        "answers": samples[-1]["answers"],
        "memory_growth_mb": mean(late, "memory_mb") - mean(early, "memory_mb"),
        "latency_early_ms": mean(early, "latency_ms"),
        "latency_late_ms": mean(late, "latency_ms"),
        "processor_early_ms": mean(early, "processor_ms"),
        "processor_late_ms": mean(late, "processor_ms"),
        "latency_slope_ms_per_hour": slope,
    }


def mean(samples: list[dict], key: str) -> float:
    return statistics.fmean(sample[key] for sample in samples)


def draw(samples: list[dict], file: Path) -> None:
    """Memory, latency and processor time over time."""
    import matplotlib.pyplot as plt

    labels = {
        "memory_mb": "resident\nmemory, MB",
        "latency_ms": "latency, ms",
        "processor_ms": "processor time\nof an answer, ms",
    }
    figure, axes = plt.subplots(3, 1, sharex=True, figsize=(8, 6), layout="constrained")
    minutes = [sample["seconds"] / 60 for sample in samples]
    for plot, (key, label) in zip(axes, labels.items(), strict=True):
        plot.plot(minutes, [sample[key] for sample in samples])
        plot.set(ylabel=label, ylim=(0, None))
    axes[-1].set_xlabel("minutes")
    figure.savefig(file, dpi=100)


if __name__ == "__main__":
    main()
