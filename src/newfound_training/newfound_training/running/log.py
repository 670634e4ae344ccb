# SPDX-License-Identifier: Apache-2.0
"""TensorBoard logs of a training, in `<out>/tensorboard`."""

import warnings
from collections.abc import Mapping
from types import TracebackType

from newfound_training.running.run import Run


class TrainingLog:
    """Writes scalars; what an interrupted run logged from `first_step` on is discarded.

    With None everything is kept.
    """

    def __init__(self, run: Run, first_step: int | None) -> None:
        self._writer = None
        if run.team.leads:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its own dependencies complain of each other
                from torch.utils.tensorboard import SummaryWriter
            folder = str(run.out / "tensorboard")
            self._writer = SummaryWriter(folder, purge_step=first_step)

    def scalars(self, group: str, values: Mapping[str, float], step: int) -> None:
        """Adds one value to the curve of each name."""
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def __enter__(self) -> "TrainingLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()
