# SPDX-License-Identifier: Apache-2.0
"""ONDA on streams as a robot sees them: sorted by class, in bursts, of two domains, as filmed.

Every method predicts the same frames in the same order. What counts is the loss against the
source in the worst stream beside the mean gain.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newfound_core.errors import ConfigError
from newfound_core.onda import OndaConfig
from newfound_core.storage import write_bytes
from newfound_training.online.experiment import Experiment
from newfound_training.online.options import OnlineOptions
from newfound_training.online.streams import Target
from newfound_training.running.command import Run

_log = logging.getLogger(__name__)

SOURCE_ONLY = "source only"
METHODS: dict[str, OndaConfig | None] = {
    SOURCE_ONLY: None,
    "thesis": OndaConfig.thesis(),
    "default": OndaConfig(),
    "thesis, streaming": OndaConfig.thesis(estimator="streaming"),
    "balanced": OndaConfig.thesis(balanced=True),
    "confidence drop": OndaConfig.thesis(confidence_drop=0.01),
    "alarm": OndaConfig.thesis(alarm=True),
    "streaming, alarm": OndaConfig.thesis(estimator="streaming", alarm=True),
    "late layers": OndaConfig.thesis(layers="last:4"),
    "anchor": OndaConfig.thesis(anchor=True, anchor_online_share=0.5),
    "skip redundant": OndaConfig.thesis(skip_redundant=True),
}
Row = dict[str, Any]


def run_streams(experiment: Experiment, pairs: Sequence[tuple[str, str]], run: Run) -> Row:
    """The table of all pairs, streams and methods."""
    options = experiment.options
    unknown = sorted(set(options.methods) - set(METHODS))
    if unknown:
        raise ConfigError(f"there are no methods {unknown}; there are {', '.join(METHODS)}")
    names = [SOURCE_ONLY, *(n for n in options.methods or METHODS if n != SOURCE_ONLY)]
    rows = [
        stream_row(_target(experiment, *pair, stream), stream, names, options)
        for pair in pairs
        for stream in options.streams
    ]
    table = streams_markdown(rows, names)
    write_bytes(run.out / "table.md", table.encode())
    _log.info("%s", table)
    first = _target(experiment, *pairs[0], options.streams[0])
    return {
        "streams": rows,
        "gains": {name: gains(rows, name) for name in names[1:]},
        "verification": _verification(first, names, options),
    }


def _target(experiment: Experiment, source: str, target: str, stream: str) -> Target:
    if stream != "alternating":
        return experiment.target(source, target)
    others = [n for n in experiment.images.domain_names if n not in (source, target)]
    if not others:
        raise ConfigError(f"no domain besides {source} and {target} to alternate with")
    return experiment.target(source, target, others[0])


def stream_row(target: Target, stream: str, names: Sequence[str], options: OnlineOptions) -> Row:
    """The accuracy of each method in one stream."""
    order = stream_order(target, stream, options)
    row: Row = {"source": target.source, "target": target.target, "stream": stream}
    row |= {"frames": len(order), "accuracy": {}}
    for name in names:
        config = METHODS[name]
        if config is None:
            predicted = target.source_only()[order]
        else:
            predicted = target.replayed(f"{stream}-{name}", config, order)
        row["accuracy"][name] = float((predicted == target.labels[order]).mean())
    return row


def stream_order(target: Target, stream: str, options: OnlineOptions) -> np.ndarray:
    """Indices of the target's images in the order of a stream."""
    generator = np.random.default_rng([target.seed, 10])
    shuffled = generator.permutation(len(target.pixels))
    labels = target.labels[shuffled]
    if stream == "shuffled":
        return shuffled
    if stream == "sorted":
        rank = generator.permutation(int(labels.max()) + 1)
        return shuffled[np.argsort(rank[labels], kind="stable")]
    if stream == "bursty":
        bursts = [
            part
            for label in np.unique(labels)
            for part in _parts(shuffled[labels == label], options.burst)
        ]
        return np.concatenate([bursts[i] for i in generator.permutation(len(bursts))])
    if stream == "alternating":
        domains = target.pixels.images.domains[shuffled]
        first, second = (_parts(shuffled[domains == d], options.burst) for d in np.unique(domains))
        turns = [part for pair in zip(first, second, strict=False) for part in pair]
        return np.concatenate(turns)
    names = [Path(source.name).name for source in target.pixels.images.sources]
    return np.argsort(np.array(names), kind="stable")  # video: as filmed


def _parts(indices: np.ndarray, length: int) -> list[np.ndarray]:
    return [indices[i : i + length] for i in range(0, len(indices), length)]


def gains(rows: Sequence[Row], name: str) -> dict[str, Any]:
    """Mean gain over the source and the worst one, with its stream."""
    gained = [row["accuracy"][name] - row["accuracy"][SOURCE_ONLY] for row in rows]
    worst = rows[int(np.argmin(gained))]
    where = f"{worst['source']}:{worst['target']}, {worst['stream']}"
    shuffled = [g for g, row in zip(gained, rows, strict=True) if row["stream"] == "shuffled"]
    return {
        "mean": float(np.mean(gained)),
        "shuffled": float(np.mean(shuffled)) if shuffled else None,
        "worst": float(min(gained)),
        "worst_stream": where,
    }


def streams_markdown(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Accuracies in percent, then gains in points."""
    lines = [f"| pair | stream | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    pair = ""
    for row in rows:
        said, pair = pair, f"{row['source']} → {row['target']}"
        cells = [f"{100 * row['accuracy'][name]:.1f}" for name in names]
        shown = "" if said == pair else pair
        lines.append(f"| {' | '.join([shown, row['stream'], *cells])} |")
    for title in ("mean", "worst"):
        cells = [f"{100 * gains(rows, name)[title]:+.1f}" for name in names[1:]]
        lines.append(f"| **{title} gain** | all |  | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _verification(target: Target, names: Sequence[str], options: OnlineOptions) -> Row:
    if not options.verify_frames:
        return {}
    order = stream_order(target, options.streams[0], options)[: options.verify_frames]
    configs = {name: METHODS[name] for name in names}
    return {
        name: target.verification(config, order, name)
        for name, config in configs.items()
        if config is not None
    }
