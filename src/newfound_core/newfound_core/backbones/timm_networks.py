# SPDX-License-Identifier: Apache-2.0
"""Any timm network as a backbone, named `timm/<name>`."""

from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
from timm.layers import BatchNormAct2d
from timm.models import PretrainedCfg
from torch import Tensor, nn

from newfound_core.backbones.contract import Backbone, Recipe, Tensors
from newfound_core.backbones.weights import ADVICE, fetched, read_weights, require_network
from newfound_core.errors import BackboneError, ConfigError, WeightsError

# Attribute names of timm's families: (stem, stages). What is left over is the head. A family
# that fits none of them, or computes more than its modules in turn, has no stem: its domain
# branch starts from the image.
LAYOUTS = (
    (("conv_stem", "bn1"), ("blocks", "conv_head", "bn2")),  # EfficientNet, MobileNet v2
    (("conv_stem", "bn1"), ("blocks",)),  # MobileNet v3
    (("conv1", "bn1", "act1", "maxpool"), ("layer1", "layer2", "layer3", "layer4")),  # ResNet
    (("stem",), ("s1", "s2", "s3", "s4", "final_conv")),  # RegNet
    (("stem",), ("stages", "final_conv")),  # ByobNet: RepVGG, GENet, …
    (("stem",), ("stages", "norm_pre")),  # ConvNeXt
)

# Options of timm that would open a file or fetch something, or change what the outputs are.
# Options may come from a checkpoint, and a checkpoint must not make anyone open anything.
RESERVED = {
    "cache_dir",
    "checkpoint_path",
    "features_only",
    "num_classes",
    "pretrained",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
}


class TimmHead(nn.Module):
    """timm's own way from the last map to the features, on what is left of the network."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, feature_map: Tensor) -> Tensor:
        """The features before timm's classifier."""
        return self.network.forward_head(feature_map, pre_logits=True)


class TimmFeatures(nn.Module):
    """A network that cannot be cut: all of it, from the image to the features."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        """The features before timm's classifier."""
        return self.network.forward_head(self.network.forward_features(image), pre_logits=True)


def timm_recipe(name: str) -> Recipe:
    """The recipe of one timm network; `build_backbone` asks for it by `timm/<name>`."""
    if not timm.is_model(name):
        near = ", ".join(timm.list_models(f"*{name.partition('_')[0]}*")[:5])
        raise BackboneError(
            f"timm {timm.__version__} has no network {name!r}"
            + (f"; names like it: {near}" if near else "")
        )
    classifier = timm_settings(name).classifier or ()
    names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    return Recipe(
        partial(create_timm, name),
        assemble_timm,
        tuple(f"{prefix}." for prefix in names),
        partial(timm_weights, name),
    )


def timm_settings(name: str) -> PretrainedCfg:
    """timm's record of a network's published weights: source, mean, std, classifier."""
    return timm.get_pretrained_cfg(name) or PretrainedCfg()


def create_timm(name: str, **options: Any) -> nn.Module:
    """timm's network without its classifier, with random weights."""
    refused = sorted(RESERVED & options.keys())
    if refused:
        raise ConfigError(f"timm/{name} does not take {refused}: weights have their own argument")
    try:
        return timm.create_model(name, pretrained=False, num_classes=0, **options)
    except TypeError as error:
        raise BackboneError(f"timm does not build {name} with {options}: {error}") from error


def timm_weights(name: str) -> Tensors:
    """The weights timm publishes for a network, as safetensors and never as a pickle."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    source = timm_settings(name).hf_hub_id
    if not source:
        raise WeightsError(f"timm publishes no weights for {name}. {ADVICE}")
    cached = try_to_load_from_cache(source, "model.safetensors")
    if isinstance(cached, str):
        return read_weights(Path(cached))
    what = f"weights of timm/{name}"
    require_network("https://huggingface.co", what)
    return read_weights(Path(fetched(what, lambda: hf_hub_download(source, "model.safetensors"))))


def assemble_timm(network: nn.Module) -> Backbone:
    """Cut a timm network into stem, stages and head; a cut counts if it computes the same."""
    network.eval()
    whole = TimmFeatures(network)
    with torch.no_grad():
        probe = _probe(network)
        expected = whole(probe)
        split_fused_norms(network)
        if expected.ndim != 2 or not _agree(whole(probe), expected):
            raise BackboneError(f"timm's {type(network).__name__} gives no feature vector")
        backbone = next(
            (b for layout in LAYOUTS if (b := _cut(network, layout, probe, expected))),
            Backbone(
                nn.Identity(),
                OrderedDict(network=whole),
                nn.Identity(),
                stem_channels=probe.shape[1],
                feature_dim=expected.shape[1],
            ),
        )
    return backbone.train()


def split_fused_norms(network: nn.Module) -> None:
    """Replace timm's fused norm and activation by the two layers, in place, same parameters."""
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, BatchNormAct2d):
                setattr(parent, name, _split(child))


def _split(fused: BatchNormAct2d) -> nn.Module:
    norm = nn.BatchNorm2d(
        fused.num_features,
        fused.eps,
        fused.momentum,
        fused.affine,
        fused.track_running_stats,
    )
    norm.weight, norm.bias = fused.weight, fused.bias
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        setattr(norm, name, getattr(fused, name))
    norm.train(fused.training)
    layers: OrderedDict[str, nn.Module] = OrderedDict(norm=norm, drop=fused.drop, act=fused.act)
    layers = OrderedDict((k, m) for k, m in layers.items() if not isinstance(m, nn.Identity))
    return nn.Sequential(layers) if len(layers) > 1 else norm


def _cut(
    network: nn.Module, layout: tuple[tuple[str, ...], ...], probe: Tensor, expected: Tensor
) -> Backbone | None:
    """The network cut by one layout, or None if that is not what the network computes."""
    stem_names, stage_names = layout
    if not all(isinstance(getattr(network, n, None), nn.Module) for n in stem_names + stage_names):
        return None
    stem = nn.Sequential(OrderedDict((name, getattr(network, name)) for name in stem_names))
    stages = _named_stages(network, stage_names)
    head = TimmHead(network)
    early = stem(probe)
    if not _agree(head(nn.Sequential(stages)(early)), expected):
        return None
    for name in stem_names + stage_names:
        delattr(network, name)  # they live in the stem and stages now
    return Backbone(
        stem, stages, head, stem_channels=early.shape[1], feature_dim=expected.shape[1]
    )


def _named_stages(network: nn.Module, names: tuple[str, ...]) -> "OrderedDict[str, nn.Module]":
    """The stages by name; a sequence of stages (`blocks`) is spread out (`blocks0`, …)."""
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for name in names:
        module = getattr(network, name)
        if name in ("blocks", "stages"):
            stages.update((f"{name}{i}", stage) for i, stage in enumerate(module))
        elif not isinstance(module, nn.Identity):
            stages[name] = module
    return stages


def _probe(network: nn.Module) -> Tensor:
    settings: dict[str, Any] = getattr(network, "pretrained_cfg", {})
    size = settings.get("input_size", (3, 224, 224)) if settings.get("fixed_input_size") else None
    return torch.randn(2, *(size or (3, 96, 96)), generator=torch.Generator().manual_seed(0))


def _agree(found: Tensor, expected: Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    return bool((found - expected).abs().max() <= 1e-4 * expected.abs().max())
