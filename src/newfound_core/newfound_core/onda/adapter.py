# SPDX-License-Identifier: Apache-2.0
"""ONDA: predict every frame with the current statistics, and let them follow the stream.

M. Mancini, H. Karaoguz, E. Ricci, P. Jensfelt, B. Caputo, "Kitting in the Wild through Online
Domain Adaptation", IROS 2018, arXiv:1807.01028; thesis 2.6.3 (its equations have no numbers). With
the statistics mu^, var^ of the latest n frames, from mu_0, var_0 of the source on,

    mu_t  = (1 - alpha) mu_{t-1}  + alpha mu^
    var_t = (1 - alpha) var_{t-1} + alpha n / (n - 1) var^

where n counts the values behind var^, those of all positions after a convolution. Only statistics
of batch normalisation change: no parameter, no dropout, no mode; unless `refine_rate` is set.

In a layer with several domains (`DomainBatchNorm`) every domain follows the frames weighted
by their assignment to it, and its step is scaled by its mean weight in them: a domain that
the frames do not belong to stays where it is, so the domains do not collapse into one.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from newfound_core.errors import BackboneError, ConfigError, DataError
from newfound_core.onda.config import LIVE_OPTIONS, OndaConfig
from newfound_core.onda.estimators import (
    BatchEstimator,
    Estimator,
    PendingUpdate,
    ReadyUpdate,
    StreamingEstimator,
)
from newfound_core.onda.folding import (
    Folding,
    as_batch,
    fold,
    label_and_entropy,
    logits_of,
)
from newfound_core.onda.refinement import Refinement
from newfound_core.onda.safeguards import (
    BalancedMemory,
    LatestFrames,
    Observation,
    Prior,
    RedundancyFilter,
    Settling,
    appearance,
)
from newfound_core.onda.schedule import LearningSchedule
from newfound_core.onda.statistics import (
    Drift,
    NormalizationLayers,
    Statistics,
    measure_drift,
    read_state,
    write_state,
)
from newfound_core.onda.watch import Watch


@dataclass
class OndaStatus:
    """Counters of the adapter."""

    frames: int = 0  # predicted
    counted: int = 0  # of these, gathered for an update
    redundant: int = 0  # not gathered: looked like the last one
    rejected: int = 0  # frames and estimates not used because they were not finite
    updates: int = 0
    frozen: bool = False
    alarms: int = 0  # times the alarm restored the source
    last_alarm: str = ""  # why it last did, and at which frame
    resting: bool = False  # the source serves: no need to adapt, or after an alarm
    start: str = "source"  # name of the statistics that the adapter began with
    confidence_drop: float = math.nan  # of the source, against its own images
    agreement: float = math.nan  # with a certain source, 0 to 1; NaN while that is not known


class Onda:
    """Adapter of the statistics of `network`, which must be in evaluation mode.

    With `inline=True` an update runs inside `predict`, after the prediction is made. With
    `inline=False` the caller moves the slow part elsewhere:

        update = onda.pending_update()            # None until enough frames have counted
        if update is not None:
            ready = update.estimate()             # in another thread
            onda.apply(ready)                     # takes effect between two frames

    All methods may be called from any thread; they wait for a running prediction.
    """

    def __init__(
        self,
        network: nn.Module,
        config: OndaConfig | None = None,
        *,
        inline: bool = True,
        logits: Callable[[Any], Tensor] = logits_of,
        engine: Callable[[NormalizationLayers], Folding] | None = None,
    ) -> None:
        """`logits` finds those of the classes, [N, classes], in what the network returns.

        `engine` makes what serves the frames, unless that is PyTorch.
        """
        if any(module.training for module in network.modules()):
            raise BackboneError(
                "the network is in training mode: call network.eval() before adapting it"
            )
        self.network = network
        self.config = config or OndaConfig()
        self._inline, self._logits = inline, logits
        self._lock = threading.RLock()
        self._layers = NormalizationLayers(network, self.config.layers)
        self._source = self._start = self._online = self._layers.read()
        self._fingerprint = self._layers.fingerprint(self._source)
        self._refinement = self._build_refinement()
        self._estimator = self._build_estimator()
        self._folded: Folding | None = None
        self._schedule: LearningSchedule | None = None  # None: every frame is learned from
        self._tried_to_fold = engine is not None
        if engine is not None:
            self._use_folded(engine(self._layers))
        self._memory: LatestFrames | BalancedMemory = LatestFrames()
        self._redundancy = RedundancyFilter()
        watched = self.config.alarm or self.config.confidence_drop > 0
        self._watch = Watch(self._layers, logits) if watched else None
        self._settling = Settling()
        self._prior = Prior()
        self._status = OndaStatus()
        self._since_update = 0
        self._restart_watch()
        self._generation = 0  # an estimate made before a reset must not be applied after it

    def _build_refinement(self) -> Refinement | None:
        if self.config.refine_rate > 0 and not self._layers.has_affine:
            raise ConfigError(
                "refine_rate needs a network with plain batch normalisation that has a scale"
            )
        return Refinement(self.config.refine_rate) if self.config.refine_rate > 0 else None

    def _build_estimator(self) -> Estimator:
        if self.config.estimator == "batch":
            return BatchEstimator(self._layers, self._refinement, self._logits)
        return StreamingEstimator(self._layers, self.config.positions_per_frame)

    # Prediction

    def predict(self, frame: Tensor) -> Tensor:
        """The logits [classes] of one frame, [C, H, W] or [1, C, H, W]; then learn from it."""
        frame = as_batch(frame)
        if len(frame) != 1:
            raise DataError(f"expected one frame, got {len(frame)}: call the adapter itself")
        return self._logits(self(frame))[0]

    def probabilities(self, frame: Tensor) -> Tensor:
        """The class probabilities of one frame, which is learned from."""
        return self.predict(frame).softmax(-1)

    def __call__(self, images: Tensor) -> Any:
        """Run the network on one frame, and learn from it.

        A frame is an image [C, H, W], or [N, C, H, W], the crops of N objects in it.
        """
        images = as_batch(images)
        return self._run(images, [slice(0, len(images))])

    def replay(self, frames: Tensor) -> Tensor:
        """The logits of recorded frames [N, C, H, W], with the same result as one by one.

        No statistics change between two updates, so all frames in between run at once.
        """
        logits = []
        while len(frames):
            count = max(1, self._frames_due() - self._since_update)
            if self._schedule is not None and self._schedule.watched:
                count = 1  # whether a frame is learned from depends on the one before it
            chunk, frames = as_batch(frames[:count]), frames[count:]
            each = [slice(i, i + 1) for i in range(len(chunk))]
            logits.append(self._logits(self._run(chunk, each)))
        return torch.cat(logits)

    @torch.no_grad()
    def _run(self, images: Tensor, frames: Sequence[slice]) -> Any:
        """Run the network once on the images of one or more frames, and learn from these."""
        with self._lock:
            self._status.frames += len(frames)
            counted = [self._observations(part) for part in frames if self._counts(images[part])]
            observations = [part for parts in counted for part in parts]
            if counted:
                self._fold(images)
                self._estimator.start(images, observations)
            try:
                listens = bool(counted) and self._estimator.listens
                output = self._forward(images, observe=listens)
            finally:
                samples = iter(self._estimator.finish())
            for parts in counted:
                self._learn(images, parts, [next(samples) for _ in parts], output)
            if self._watch is not None and self._resting() and not self._status.frozen:
                self._rest(self._watch, [self._logits(output)[part] for part in frames])
            self._update_if_due()
            return output

    def _rest(self, watch: Watch, logits: Sequence[Tensor]) -> None:
        """Watch the source, which serves."""
        for of_frame in logits:
            watch.observe(of_frame)
        if not self._follows():
            self._since_update += len(logits)
            if self._since_update >= self.config.frames_per_update:
                watch.wake(self._since_update, self.config)
                self._since_update = 0

    def _resting(self) -> bool:
        return self._watch is not None and self._watch.resting

    def _follows(self) -> bool:
        """Whether the statistics follow the stream.

        With `batch` they do so also while the source serves, to be there when they are needed.
        What `streaming` gathers then belongs to the statistics of the source.
        """
        if self._status.frozen or self._watch is None or not self._watch.resting:
            return not self._status.frozen
        return self.config.estimator == "batch" and not self._watch.holding

    def _observations(self, frame: slice) -> list[slice]:
        """Images that are remembered together: a memory of classes holds each on its own."""
        if not self.config.balanced:
            return [frame]
        return [slice(i, i + 1) for i in range(frame.start, frame.stop)]

    def _fold(self, images: Tensor) -> None:
        """Serve with the folded network from the first frame that is finite on, if that works."""
        if not self._tried_to_fold:
            self._tried_to_fold = True
            if (folded := fold(self._layers, images)) is not None:
                self._use_folded(folded)

    def _use_folded(self, folded: Folding) -> None:
        self._folded = folded
        self._estimator.serve_with(folded)
        if folded.learn_every > 1:
            watched = self._estimator.listens  # otherwise a frame's distance is not known
            self._schedule = LearningSchedule(folded.learn_every, watched=watched)

    def _forward(self, images: Tensor, *, observe: bool) -> Any:
        if self._folded is None:
            return self.network(images)
        return self._folded.run(images, observe=observe)

    def _counts(self, frame: Tensor) -> bool:
        """Whether the frame may be learned from."""
        if not self._follows():
            return False
        if self._schedule is not None and not self._schedule.takes_next():
            return False
        if not math.isfinite(float(frame.sum())):
            self._status.rejected += 1
            return False
        threshold = self.config.redundancy_threshold
        if self.config.skip_redundant and self._redundancy.is_redundant(frame, threshold):
            self._status.redundant += 1
            return False
        return True

    def _learn(
        self, images: Tensor, parts: Sequence[slice], samples: Sequence[Any | None], output: Any
    ) -> None:
        """Remember a frame."""
        if any(sample is None for sample in samples):
            self._status.rejected += 1
            return
        if self._watch is not None and not self._watch.resting:
            logits = self._logits(output)[parts[0]]
            self._watch.keep(images[parts[0]], logits, self._since_update, self.config)
        for part, sample in zip(parts, samples, strict=True):
            observation = Observation(sample)
            if self.config.balanced:
                logits = self._logits(output)[part]
                observation.label, observation.uncertainty = label_and_entropy(logits[0])
                observation.appearance = appearance(images[part][0])
                if isinstance(self._memory, LatestFrames):
                    self._memory = BalancedMemory(self.config.memory_size, logits.shape[1])
            self._memory.add(observation, self.config.frames_per_update)
            if self._schedule is not None and self._schedule.watched:
                self._schedule.observe(
                    self._layers.distance(self._online, observation.sample.mean)
                )
        self._status.counted += 1
        self._since_update += 1

    def _update_if_due(self) -> None:
        if self._inline and (update := self.pending_update()) is not None:
            self.apply(update.estimate())

    # Updates

    def pending_update(self) -> PendingUpdate | None:
        """The update that is due, once; None while too few frames have counted."""
        with self._lock:
            due = self._frames_due()
            if not self._follows() or self._since_update < due:
                return None
            self._since_update = 0
            drawn = self._memory.draw(due)
            if len(drawn) < 2:  # no variance in a single frame
                return None
            samples = [observation.sample for observation in drawn]
            return PendingUpdate(
                self._estimator, samples, self._online, self._generation, self._comparison()
            )

    def _frames_due(self) -> int:
        return self._prior.frames_due(self.config.frames_per_update)

    def _comparison(self) -> Callable[[], Sequence[Any]]:
        """What compares the frames of an update with the source; nothing if nobody watches."""
        if self._watch is None:
            return tuple
        return partial(self._watch.compare, self._watch.kept())

    def apply(self, update: ReadyUpdate) -> bool:
        """Let the statistics follow an estimate; False if it is outdated or not finite."""
        with self._lock:
            if self._status.frozen or update.generation != self._generation:
                return False
            if not update.estimate.is_finite():
                self._status.rejected += 1
                return False
            usual = self._settling.momentum(self.config, self._online, update.estimate)
            step = self._prior.momentum(usual, self._frames_due()) * update.estimate.share
            self._online = self._online.lerp(update.estimate.statistics, step)
            self._status.updates += 1
            if self._schedule is not None:
                self._schedule.note_update(usual)
            if self._watch is not None:
                self._judge(self._watch, update.answers)
            self._serve()
            return True

    def _serve(self) -> None:
        served = self._source if self._resting() else self._online
        if self.config.anchor and not self._resting():
            served = self._start.lerp(self._online, self.config.anchor_online_share)
        self._layers.write(served)
        if self._folded is not None:
            self._folded.refresh(served)

    def _judge(self, watch: Watch, answers: Sequence[Any]) -> None:
        """Let the source serve if adaptation is lost or not needed, or no longer."""
        if watch.resting:
            watch.wake(self.config.frames_per_update, self.config)
            return
        problem = watch.judge(answers, self.config)
        self._status.agreement = watch.agreement()
        if problem is not None:
            self._status.alarms += 1
            self._status.last_alarm = f"{problem}, at frame {self._status.frames}"
        if problem is not None or (watch.resting and not self._follows()):
            self._switch_to(self._source)

    # State

    @property
    def source(self) -> Statistics:
        """The statistics that the network was given with."""
        return self._source

    @property
    def online(self) -> Statistics:
        """The statistics that follow the stream."""
        with self._lock:
            return self._online

    def drift(self) -> Drift:
        """Distance of the online statistics from the source."""
        with self._lock:
            return measure_drift(self._layers, self._source, self._online)

    def status(self) -> OndaStatus:
        """A copy of the counters."""
        with self._lock:
            drop = math.nan if self._watch is None else self._watch.confidence_drop()
            return replace(self._status, resting=self._resting(), confidence_drop=drop)

    def reset(self) -> None:
        """Return to the statistics it began with and forget the frames gathered so far."""
        with self._lock:
            self._restart_watch(resting=self._start is self._source)
            self._switch_to(self._start)

    def start_from(
        self,
        statistics: Statistics,
        name: str,
        *,
        prior_frames: float | Sequence[float] | None = None,
        keep_frames: bool = False,
    ) -> None:
        """Begin anew with these statistics, which `reset` and `anchor` return to from now on.

        They count as `prior_frames` frames of the stream, one number or one for each layer;
        None: the momentum is as ever. With `keep_frames` the frames gathered so far still count,
        where that can be (`batch`). Drift is measured from the source all the same.
        """
        self._layers.check(statistics)
        like = self._source.mean
        given = statistics.to(like)
        frames = None if prior_frames is None else self._layers.of_layers(prior_frames)
        prior = Prior(frames)
        with self._lock:
            self._start, self._status.start = given, name
            self._prior = prior
            if keep_frames and self.config.estimator == "batch" and not self._resting():
                self._restart_estimates()
                self._online = given
                self._serve()
            else:
                self.reset()

    def freeze(self) -> None:
        """Keep the statistics as they are; predictions go on."""
        with self._lock:
            self._status.frozen = True
            self._forget()

    def unfreeze(self) -> None:
        """Follow the stream again."""
        with self._lock:
            self._status.frozen = False

    def reconfigure(self, **changes: Any) -> None:
        """Change options while the stream runs, e.g. `momentum` or `frames_per_update`."""
        fixed = set(changes) - LIVE_OPTIONS
        if fixed:
            raise ConfigError(
                f"{sorted(fixed)} cannot change while the stream runs; these can: "
                f"{sorted(LIVE_OPTIONS)}. Build a new Onda for the others"
            )
        with self._lock:
            self.config = replace(self.config, **changes)
            self._serve()

    def save(self, path: Path | str) -> None:
        """Write the online statistics and counters to a safetensors file."""
        with self._lock:
            status = self._status
            counters = {"frames": status.frames, "updates": status.updates}
            online = self._online
        write_state(
            Path(path),
            self._layers,
            online,
            counters=counters,
            fingerprint=self._fingerprint,
            config=self.config,
        )

    def restore(self, path: Path | str) -> None:
        """Go on from a saved state; a state of another network is a `CheckpointError`."""
        online, counters = read_state(Path(path), self._layers, self._fingerprint)
        like = self._source.mean
        with self._lock:
            self._restart_watch(resting=False)
            self._switch_to(online.to(like))
            self._status.frames = counters.get("frames", 0)
            self._status.updates = counters.get("updates", 0)

    def close(self) -> None:
        """Stop listening to the network, which keeps its present statistics."""
        self._estimator.close()

    def _switch_to(self, online: Statistics) -> None:
        self._online = online
        self._forget()
        self._serve()

    def _restart_watch(self, *, resting: bool = True) -> None:
        if self._watch is not None:
            self._watch.restart(self.config, resting=resting)
        self._status.agreement = math.nan

    def _restart_estimates(self) -> None:
        self._generation += 1
        if self._refinement is not None:
            self._refinement.restart()

    def _forget(self) -> None:
        self._restart_estimates()
        self._since_update = 0
        self._memory.clear()
        if self._watch is not None:
            self._watch.clear()
        self._redundancy.clear()
        self._settling.restart()
        self._prior.restart()
        if self._schedule is not None:
            self._schedule.restart()
