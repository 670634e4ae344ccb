# SPDX-License-Identifier: Apache-2.0
"""What a task may change of the network that it shares with others."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from newfound_core.errors import ConfigError

Variant = Literal["head", "norm", "piggyback", "piggyback_bn", "simple", "full", "channelwise"]
MaskGradient = Literal["straight_through", "sigmoid"]
Unit = Literal["weights", "relative"]
NormStatistics = Literal["base", "task"]


class Rules(NamedTuple):
    """A variant: what is stored, where k0 to k3 start and which of them are learned."""

    masks: bool
    norm: bool  # whether the task has batch normalisation of its own
    start: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    learned: tuple[bool, bool, bool, bool] = (False, False, False, False)
    margin: tuple[float, float] = (1.0, 2.0)


# Piggyback starts its scores 50 steps of its optimiser above its threshold.
_PIGGYBACK = {"start": (0.0, 0.0, 0.0, 1.0), "margin": (50.0, 50.0)}

VARIANTS: dict[str, Rules] = {
    "head": Rules(masks=False, norm=False),  # frozen features
    "norm": Rules(masks=False, norm=True),
    "piggyback": Rules(masks=True, norm=False, **_PIGGYBACK),  # type: ignore[arg-type]
    "piggyback_bn": Rules(masks=True, norm=True, **_PIGGYBACK),  # type: ignore[arg-type]
    "simple": Rules(masks=True, norm=True, learned=(False, True, True, False)),
    "full": Rules(masks=True, norm=True, learned=(False, True, True, True)),
    "channelwise": Rules(masks=True, norm=True, learned=(False, True, True, True)),
}


@dataclass(frozen=True)
class TaskDeltaConfig:
    """How the masks of a task are learned."""

    variant: Variant = "full"
    mask_gradient: MaskGradient = "straight_through"
    # Start of the scores in multiples of the learning rate, lowest and highest; Adam moves a score
    # by about one per step. None: the variant's own.
    mask_margin: tuple[float, float] | None = None
    unit: Unit = "weights"  # of k1 and k2; relative: the standard deviation of the layer's weights
    keep_dead: bool = False  # leave output channels alone whose weights are all nearly zero
    # Statistics of the task's own normalisation. base: only gamma and beta are learned. task: the
    # batch's in training, as in the thesis; stored with the task, which is then larger.
    norm_statistics: NormStatistics = "base"

    def __post_init__(self) -> None:
        choices = {"variant": Variant, "mask_gradient": MaskGradient, "unit": Unit,
                   "norm_statistics": NormStatistics}  # fmt: skip
        for name, known in choices.items():
            if getattr(self, name) not in get_args(known):
                raise ConfigError(
                    f"{name} must be one of {', '.join(get_args(known))}, "
                    f"got {getattr(self, name)!r}"
                )
        low, high = self.margin
        if not 0 <= low <= high:
            raise ConfigError(f"mask_margin must be 0 <= lowest <= highest, got {low}, {high}")

    @property
    def rules(self) -> Rules:
        """The rules of the variant."""
        return VARIANTS[self.variant]

    @property
    def own_statistics(self) -> bool:
        """Whether the task's normalisation has statistics of its own."""
        return self.rules.norm and self.norm_statistics == "task"

    @property
    def margin(self) -> tuple[float, float]:
        """Start of the scores in multiples of the learning rate."""
        return self.rules.margin if self.mask_margin is None else self.mask_margin
