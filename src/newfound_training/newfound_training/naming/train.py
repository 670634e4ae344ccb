# SPDX-License-Identifier: Apache-2.0
"""`train_names`: CuMix on labelled images of several domains, into a checkpoint that names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from newfound_core.errors import ConfigError, DataError
from newfound_core.models import save_model, write_model_card
from newfound_core.naming import (
    MixingConfig,
    NameEncoder,
    NamingConfig,
    NamingModel,
    cumix_loss,
    read_aliases,
    read_word_vectors,
)
from newfound_core.preprocessing import default_preprocessing
from newfound_training.data import Pixels, load_pixels, open_images
from newfound_training.data.sampling import split
from newfound_training.naming.make import read_vocabulary
from newfound_training.places.data import BalancedBatches
from newfound_training.running.command import Command, Run, require_same_images
from newfound_training.running.options import CommonOptions, option
from newfound_training.running.training import Task, TrainingOptions, pretrained_backbone, train
from newfound_training.source import predict, to_device


@dataclass(frozen=True)
class TrainNamesOptions(TrainingOptions, CommonOptions):
    """Images as <domain>/<class>/<image>, and vectors of the words in the class names."""

    words: str = option("", "word vectors: spaCy, word2vec, GloVe, or our form", required=True)
    vocabulary: tuple[str, ...] = option((), "files of names; none: household and workshop names")
    aliases: str = option("", "YAML file: what names mean in other words")
    backbone: str = option("efficientnet_lite0", "network; see newfound_core.backbones")
    weights: str = option("imagenet", "imagenet, a file of tensors, or random")
    stages: int = option(0, "keep only so many stages of the network; 0 is all")
    frozen_stages: int = option(6, "stem and stages whose weights stay")
    frozen_statistics: bool = option(True, "normalise with pretrained statistics in training")
    image_size: int = option(128, "pixels")
    validation_share: float = option(0.1, "of every class, held out to measure accuracy")
    projection_start: Literal["zero", "random"] = option("zero", "of g: zero, or N(0, 0.02)")
    epoch_steps: int = option(25, "steps in an epoch of the curriculum")
    feature_mix: float = option(1.0, "weight of mixed features, eta_F")
    image_mix: float = option(0.0, "weight of mixed images, eta_I")
    strength: float = option(1.0, "beta_max of the mixing")
    warm_up: int = option(2, "epochs of the curriculum, N")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epoch_steps < 1 or self.frozen_stages < 0:
            raise ConfigError("epoch_steps must be 1 or more, frozen_stages not negative")
        self.mixing()

    def mixing(self) -> MixingConfig:
        """What is mixed."""
        return MixingConfig(self.feature_mix, self.image_mix, self.strength, self.warm_up)


class Batch(NamedTuple):
    """Images and what is known of them."""

    images: Tensor
    labels: Tensor
    domains: np.ndarray
    step: int


class NamesTask(Task):
    """The losses of CuMix; accuracy on held-out images of the seen classes."""

    def __init__(self, pixels: Pixels, options: TrainNamesOptions, run: Run) -> None:
        torch.manual_seed(run.seed)
        self._pixels, self._options, self._run = pixels, options, run
        images = pixels.images
        self.preprocessing = default_preprocessing(options.backbone, options.image_size)
        self.training_set, self.validation_set = split(
            images.labels, options.validation_share, run.seed, images.groups
        )
        of_domain = [self.training_set[images.domains[self.training_set] == d]
                     for d in range(len(images.domain_names))]  # fmt: skip
        few = [name for name, rows in zip(images.domain_names, of_domain, strict=True)
               if len(rows) < 2]  # fmt: skip
        if few:
            raise DataError(f"mixing needs two training images of every domain, but there are "
                            f"fewer of {', '.join(few)}")  # fmt: skip
        self._batches = BalancedBatches(of_domain, options.batch_size, run.seed)
        self.model: NamingModel = build(options, images.class_names)
        self.model.to(run.device).to(memory_format=torch.channels_last)

    def batch(self, step: int) -> Batch:
        """Plain images: the thesis varies them by mixing alone."""
        rows, domains = self._batches(step)
        images = self.preprocessing.batch([self._pixels[i] for i in rows])
        return Batch(images, torch.from_numpy(self._pixels.images.labels[rows]), domains, step)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The three terms with their weights."""
        options, device = self._options, self._run.device
        if options.frozen_statistics:
            self.model.backbone.eval()
        generator = np.random.default_rng([self._run.seed, 18, batch.step])
        terms = cumix_loss(
            self.model.backbone,
            self.model.scores,
            to_device(batch.images, device),
            batch.labels.to(device),
            domains=batch.domains,
            config=options.mixing(),
            epoch=batch.step // options.epoch_steps,
            generator=generator,
        )
        return {
            "classes": terms.plain,
            "mixed_features": options.feature_mix * terms.mixed_features,
            "mixed_images": options.image_mix * terms.mixed_images,
        }

    def evaluate(self) -> dict[str, float]:
        """Accuracy on the held-out images."""
        if not len(self.validation_set):
            return {}
        predicted = predict(
            self.model, self._pixels, self.validation_set,
            preprocessing=self.preprocessing, device=self._run.device,
        )  # fmt: skip
        labels = self._pixels.images.labels[self.validation_set]
        return {"validation_accuracy": float((predicted == labels).mean())}


def build(options: TrainNamesOptions, classes: tuple[str, ...]) -> NamingModel:
    """The model with the vectors of its classes and of its vocabulary."""
    aliases = read_aliases(Path(options.aliases)) if options.aliases else {}
    encoder = NameEncoder(read_word_vectors(options.words), aliases)
    names = read_vocabulary(options.vocabulary)
    seen, asked = encoder.encode(classes), encoder.encode(names)
    backbone = pretrained_backbone(options)
    model = NamingModel(backbone, len(classes), names, seen.vectors.shape[1], NamingConfig())
    model.set_vectors(seen.vectors, asked.vectors)
    nn.init.zeros_(model.projection.bias)
    if options.projection_start == "zero":
        nn.init.zeros_(model.projection.weight)
    else:
        nn.init.normal_(model.projection.weight, std=0.02)
    return model


def run_train_names(options: TrainNamesOptions, run: Run) -> dict[str, Any]:
    """Train, and write the checkpoint into `<out>/checkpoint`."""
    if run.process_group.world_size > 1:
        raise ConfigError("train-names runs in one process: start it without torchrun")
    images = open_images(options.data, options.layout)
    require_same_images(images, run)
    pixels = load_pixels(
        images, options.image_size, strict=options.strict, limit_gb=options.cache_limit_gb
    )
    task = NamesTask(pixels, options, run)
    metrics = train(task, options, run)
    shares = task.model.own_vocabulary().shares
    facts = {**metrics, "span_share_mean": float(shares.mean())}
    checkpoint = save_model(
        run.out / "checkpoint",
        task.model,
        pixels.images.class_names,
        task.preprocessing,
        provenance=run.provenance(facts),
        half=True,
        replace=True,
    )
    about = f"CuMix: names from a vocabulary of {len(shares)} through word vectors."
    write_model_card(checkpoint, "Names", about, {"training images": len(task.training_set)})
    return {
        "checkpoint": "checkpoint",
        "classes": list(pixels.images.class_names),
        "vocabulary": len(shares),
        "training_images": len(task.training_set),
        "corrupt_images": list(pixels.corrupt),
        **facts,
    }


COMMAND = Command(
    "train-names",
    "Trains CuMix: names for unseen classes in unseen domains through word vectors.",
    TrainNamesOptions,
    run_train_names,
    {
        "checkpoint": "the trained model, a folder relative to result.json",
        "classes": "seen classes, in the order of the model's outputs",
        "vocabulary": "number of names that it may answer",
        "training_images": "how many were trained on",
        "corrupt_images": "names of those left out",
        "validation_accuracy": "share of held-out images of seen classes recognised, 0 to 1",
        "span_share_mean": "mean share of the names' vectors that the seen classes tell",
    },
)
