# SPDX-License-Identifier: Apache-2.0
"""Which part of a network trains, and where the part that does not can be cut off."""

from collections.abc import Sequence

from torch import nn

from newfound_core.backbones import Backbone
from newfound_core.errors import ConfigError


def set_trainable(network: nn.Module, parts: Sequence[str] | None) -> list[nn.Parameter]:
    """Let only the named submodules train (all if None) and return their parameters."""
    network.requires_grad_(parts is None)
    for part in parts or ():
        _submodule(network, part).requires_grad_(True)
    return [parameter for parameter in network.parameters() if parameter.requires_grad]


def train_mode(
    network: nn.Module, parts: Sequence[str] | None, *, batch_statistics: bool = True
) -> None:
    """Put the trainable submodules in training mode; all others keep their statistics.

    Without `batch_statistics` batch normalisation keeps them everywhere.
    """
    network.train(parts is None)
    for part in parts or ():
        _submodule(network, part).train()
    if not batch_statistics:
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()


def split(network: nn.Module) -> tuple[nn.Sequential, nn.Sequential]:
    """Cut a network into a frozen trunk, as long as possible, and the rest.

    A `Backbone` is cut between its stages; any other network is all trunk if nothing of it
    trains, else all rest.
    """
    parts = [network]
    if isinstance(network, Backbone):
        parts = [network.stem, *network.stages, network.head]
    trains = [any(p.requires_grad for p in part.parameters()) for part in parts]
    cut = trains.index(True) if any(trains) else len(parts)
    return nn.Sequential(*parts[:cut]), nn.Sequential(*parts[cut:])


def _submodule(network: nn.Module, name: str) -> nn.Module:
    try:
        return network.get_submodule(name)
    except AttributeError as error:
        known = ", ".join(name for name, _ in network.named_children())
        raise ConfigError(
            f"the network has no part named {name!r}; its main parts are {known}"
        ) from error
