# SPDX-License-Identifier: Apache-2.0
"""DIAL-style training on source and unlabelled target together: what ONDA could at best become.

Every normalisation layer has statistics of its own for each of the two domains; scale, bias and
all weights are shared. Only source images have a loss, without the entropy term, as the thesis
uses it. A batch is shared by the domains in proportion to their sizes.
"""

import numpy as np
import torch
from torch import Tensor

from newfound_core.assignment import AssignmentContext
from newfound_core.conversion import convert_batchnorm
from newfound_training.data import Pixels
from newfound_training.data.batches import Shuffled, image_generator
from newfound_training.running.run import Run
from newfound_training.source.options import SourceOptions
from newfound_training.source.task import Batch, SourceTask, to_device

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
