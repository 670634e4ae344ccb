# SPDX-License-Identifier: Apache-2.0
"""Models and target streams of `evaluate_online`, trained when they are first asked for.

`DialTask` trains on source and unlabelled target together: what ONDA could at best become. Every
normalisation layer has statistics of its own for each of the two domains; scale, bias and all
weights are shared. Only source images have a loss, without the entropy term, as the thesis uses
it. A batch is shared by the domains in proportion to their sizes.
"""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from newfound_core.conversion import convert_batchnorm
from newfound_core.errors import DataError
from newfound_core.models import LoadedModel, load_model
from newfound_core.normalization import AssignmentContext
from newfound_core.preprocessing import Resize
from newfound_core.storage import read_json, write_json
from newfound_training.data import ImageSet, Pixels, load_pixels, open_images
from newfound_training.data.sampling import Shuffled, image_generator
from newfound_training.online.options import OnlineOptions
from newfound_training.online.streams import Target
from newfound_training.running.command import Run, require_same_images
from newfound_training.running.options import make_options, read_preset
from newfound_training.running.training import train
from newfound_training.source import Batch, SourceOptions, SourceTask, to_device, train_on

SOURCE, TARGET = 0, 1


class DialTask(SourceTask):
    """A source task that also sees target images, whose labels it never looks at."""

    def __init__(self, source: Pixels, target: Pixels, options: SourceOptions, run: Run) -> None:
        super().__init__(source, options, run)
        self._target = target
        everything = len(self.training_set) + len(target)
        share = round(options.batch_size * len(target) / everything)
        self._target_count = min(options.batch_size - 2, max(2, share))
        self._target_order = Shuffled(len(target), self._target_count, run.seed + 1)
        self._assignment = AssignmentContext()
        convert_batchnorm(self.model, 2, self._assignment)

    def batch(self, step: int) -> Batch:
        """Source images first, then target images."""
        labelled = super().batch(step)
        kept = len(labelled.images) - self._target_count
        target = [
            self._augmentation(
                self._target[index],
                self.preprocessing,
                image_generator(self._run.seed + 1, step, place),
            )
            for place, index in enumerate(self._target_order(step))
        ]
        images = torch.cat([labelled.images[:kept], torch.stack(target)])
        return Batch(images, labelled.labels[:kept])

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Cross entropy of the source images; the target's only shape its statistics."""
        domains = torch.full((len(batch.images),), TARGET)
        domains[: len(batch.labels)] = SOURCE
        weights = torch.nn.functional.one_hot(domains, 2).float().to(self._run.device)
        with self._assignment.use(weights):
            logits = self.model(to_device(batch.images, self._run.device))
        labels = batch.labels.to(self._run.device)
        loss = torch.nn.functional.cross_entropy(logits[: len(labels)], labels)
        return {"classes": loss}

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Accuracy on the target, with the target's statistics."""
        weights = torch.tensor([0.0, 1.0], device=self._run.device)
        correct = 0
        for start in range(0, len(self._target), 50):
            indices = np.arange(start, min(start + 50, len(self._target)))
            images = self.preprocessing.batch([self._target[i] for i in indices])
            with self._assignment.use(weights):
                logits = self.model(to_device(images, self._run.device))
            labels = self._target.images.labels[indices]
            correct += int((logits.argmax(1).cpu().numpy() == labels).sum())
        return {"target_accuracy": correct / len(self._target)}


_log = logging.getLogger(__name__)


class Experiment:
    """Models and target streams, made when they are first asked for."""

    def __init__(self, options: OnlineOptions, run: Run) -> None:
        self.options, self.run = options, run
        self.images: ImageSet = open_images(options.data, options.layout)
        self.source_images = self._source_images()
        self.source_options = self._source_options()
        self._models: dict[str, LoadedModel] = {}
        self._decoded: dict[Path, Pixels] = {}
        self._domains: dict[tuple[Path, str], Pixels] = {}

    def _source_images(self) -> ImageSet:
        """Images that the sources are trained on: the same folder, or one with other instances."""
        if not self.options.source_data:
            return self.images
        images = open_images(self.options.source_data, self.options.layout)
        if images.class_names != self.images.class_names:
            raise DataError(
                f"{images.root} has the classes {', '.join(images.class_names)}, but "
                f"{self.images.root} has {', '.join(self.images.class_names)}"
            )
        return images

    def _source_options(self) -> SourceOptions:
        own = self.options
        values = read_preset("train-source", own.source_preset)
        common = {n: getattr(own, n) for n in ("data", "layout", "seed", "device", "strict")}
        return make_options(SourceOptions, values | common)

    @property
    def corrupt(self) -> list[str]:
        """Names of the images left out."""
        return [name for pixels in self._decoded.values() for name in pixels.corrupt]

    def domain(self, images: ImageSet, name: str) -> Pixels:
        """The images of one domain at the models' size."""
        key = images.root, name
        if key not in self._domains:
            if images.root not in self._decoded:
                size, resize = self._size()
                pixels = load_pixels(
                    images,
                    size,
                    strict=self.options.strict,
                    resize=resize,
                    limit_gb=self.options.cache_limit_gb,
                )
                require_same_images(pixels.images, self.run)
                self._decoded[images.root] = pixels
            self._domains[key] = self._decoded[images.root].in_domain(name)
        return self._domains[key]

    def _size(self) -> tuple[int, Resize]:
        if self.options.checkpoint:
            prepared = self.model("").metadata.preprocessing
            return prepared.size, prepared.resize
        return self.source_options.image_size, self.source_options.resize

    def model(self, source: str) -> LoadedModel:
        """The model of a source domain, trained now if it is not there yet."""
        name = "" if self.options.checkpoint else source
        if name not in self._models:
            folder = Path(self.options.checkpoint) if not name else self._trained(source)
            loaded = load_model(folder, "source", self.run.device)
            if loaded.labels != self.images.class_names:
                raise DataError(
                    f"{folder} knows the classes {', '.join(loaded.labels)}, but "
                    f"{self.images.root} has {', '.join(self.images.class_names)}"
                )
            self._models[name] = loaded
        return self._models[name]

    def _trained(self, source: str) -> Path:
        run = self.run.inside(f"sources/{source}")
        if not (run.out / "result.json").is_file():  # written last
            options = replace(self.source_options, domains=(source,))
            _log.info("training on %s", source)
            metrics = train_on(self.domain(self.source_images, source), options, run)
            write_json(run.out / "result.json", metrics)
        return run.out / "checkpoint"

    def target(self, source: str, target: str, *others: str) -> Target:
        """A model and the stream that it is to meet, of one domain or several in equal parts."""
        names = sorted((target, *others))
        streamed = [self._streamed(name, len(names)) for name in names]
        pixels = streamed[0]
        if others:
            rows = np.concatenate([part.rows for part in streamed])
            images = self._decoded[self.images.root].rows
            pixels = self._decoded[self.images.root].select(np.flatnonzero(np.isin(images, rows)))
        return Target(
            source,
            "+".join(names),
            self.model(source),
            pixels,
            self.run.out / "streams",
            self.run.seed,
            self.options.passes,
        )

    def _streamed(self, target: str, parts: int = 1) -> Pixels:
        """The images of a target, or some of them, which are then all that is known of it."""
        pixels, count = self.domain(self.images, target), self.options.frames // parts
        if not count or count >= len(pixels):
            return pixels
        chosen = np.random.default_rng([self.run.seed, 7]).permutation(len(pixels))[:count]
        return pixels.select(np.sort(chosen))

    def dial(self, source: str, target: str) -> dict[str, float]:
        """Accuracy on the target of a network trained on both domains."""
        run = self.run.inside(f"dial/{source}-{target}")
        path = run.out / "result.json"
        if not path.exists():
            options = replace(self.source_options, domains=(source,))
            labelled = self.domain(self.source_images, source)
            task = DialTask(labelled, self._streamed(target), options, run)
            write_json(path, train(task, options, run))
        return read_json(path)
