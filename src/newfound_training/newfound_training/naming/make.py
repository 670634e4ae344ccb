# SPDX-License-Identifier: Apache-2.0
"""`make_names`: a namer of ImageNet's classifier and word vectors, without any training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from newfound_core.calibration import calibration_error
from newfound_core.classifier import ImageNetClassifier, imagenet_classifier
from newfound_core.errors import ConfigError, DataError
from newfound_core.models import save_model, write_model_card
from newfound_core.naming import (
    NameEncoder,
    NamingConfig,
    NamingModel,
    plain_name,
    read_aliases,
    read_names,
    read_word_vectors,
)
from newfound_training.data import open_images
from newfound_training.naming.imagenet import (
    class_names,
    fitted_confidence,
    naming_model,
    object_names,
)
from newfound_training.running.command import Command, Run
from newfound_training.running.options import RunOptions, option

HOUSEHOLD = Path(__file__).parent / "household.txt"


@dataclass(frozen=True)
class MakeOptions(RunOptions):
    """ConSE or ridge regression from ImageNet's thousand classes to word vectors."""

    words: str = option("", "word vectors: spaCy, word2vec, GloVe, or our form", required=True)
    vocabulary: tuple[str, ...] = option((), "files of names; none: household and workshop names")
    imagenet_names: bool = option(True, "add the names of ImageNet's things to the vocabulary")
    aliases: str = option("", "YAML file: what names mean in other words")
    form: Literal["convex", "linear"] = option("convex", "convex: ConSE; linear: ridge regression")
    center: bool = option(True, "subtract the mean of the vocabulary from all names")
    kept_classes: int = option(30, "classes in ConSE's convex combination")
    sharpness: float = option(0.67, "factor of the classifier's logits in ConSE")
    ridge: float = option(1.0, "strength of the ridge regression")
    data: str = option("", "labelled images to fit the confidence on; none: temperature 0.1")
    layout: str = option("tree", "how the images lie there; see docs/training.md")
    licence: str = option("", "of the word vectors, for the model card")


def run_make_names(options: MakeOptions, run: Run) -> dict[str, Any]:
    """Write the checkpoint into `<out>/checkpoint`."""
    words = read_word_vectors(options.words)
    aliases = read_aliases(Path(options.aliases)) if options.aliases else {}
    names = read_vocabulary(options.vocabulary, object_names() if options.imagenet_names else ())
    network = imagenet_classifier()
    facts: dict[str, Any] = {}
    model = naming_model(
        network,
        NameEncoder(words, aliases),
        names,
        NamingConfig(options.form, options.center, options.kept_classes),
        sharpness=options.sharpness,
        ridge=options.ridge,
    )
    if options.data:
        fitted, facts = _calibrate(model, network, options)
        model.config = replace(model.config, **fitted)
    shares = model.own_vocabulary().shares
    facts |= {"span_share_mean": float(shares.mean()), "span_share_min": float(shares.min())}
    checkpoint = save_model(
        run.out / "checkpoint",
        model,
        class_names(),
        network.preprocessing,
        provenance=run.provenance(facts),
        half=True,
        replace=True,
    )
    about = (
        f"Names for unknown objects from a vocabulary of {len(names)}, without any training: "
        f"{'ConSE' if options.form == 'convex' else 'ridge regression'} on ImageNet's classifier "
        f"(EfficientNet-Lite0, Apache-2.0). Word vectors: "
        f"{options.licence or Path(options.words).name}."
    )
    write_model_card(checkpoint, "Names", about, {"vocabulary": len(names)})
    return {"checkpoint": "checkpoint", "vocabulary": len(names), **facts}


def read_vocabulary(files: Sequence[str], more: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of files, of the household's if there are none, and more names, each once."""
    read = [read_names(Path(file)) for file in files] or [read_names(HOUSEHOLD)]
    names = [name for part in (*read, more) for name in part]
    return tuple({plain_name(name): name for name in reversed(names)}.values())[::-1]


def _calibrate(
    model: NamingModel, network: ImageNetClassifier, options: MakeOptions
) -> tuple[dict[str, float], dict[str, Any]]:
    """Fit the confidence on images whose class is a name of the vocabulary."""
    images = open_images(options.data, options.layout)
    row = {plain_name(name): number for number, name in enumerate(model.vocabulary)}
    of_class = [row.get(plain_name(name), -1) for name in images.class_names]
    truth = np.array([of_class[label] for label in images.labels])
    used = np.flatnonzero(truth >= 0)
    if not len(used):
        raise DataError(f"{options.data}: no class is a name of the vocabulary")
    shown = features_of(network, [images.sources[i].read() for i in used])
    vocabulary, truth = model.own_vocabulary(), truth[used]
    with torch.inference_mode():
        embedding = functional.normalize(model.embed(shown), dim=1)
    cosines = (embedding @ vocabulary.vectors.T).double().numpy()
    temperature, penalty = fitted_confidence(cosines, truth, vocabulary.seen)
    if temperature >= 1:
        raise ConfigError(f"{options.data}: the images say nothing about their names")
    fitted = {"temperature": temperature, "seen_penalty": penalty}
    return fitted, fitted | held_out_calibration(cosines, truth, vocabulary.seen)


def held_out_calibration(
    cosines: np.ndarray, truth: np.ndarray, seen: np.ndarray, folds: int = 5
) -> dict[str, Any]:
    """How right and how sure answers are for classes on which the confidence was not fitted."""
    classes = np.random.default_rng(0).permutation(np.unique(truth))
    logits = np.zeros_like(cosines)
    for part in np.array_split(classes, min(folds, len(classes))):
        inside = np.isin(truth, part)
        others = ~inside if len(part) < len(classes) else inside
        temperature, penalty = fitted_confidence(cosines[others], truth[others], seen)
        logits[inside] = cosines[inside] / temperature - penalty * seen
    rank = (logits > logits[np.arange(len(truth)), truth][:, None]).sum(axis=1)
    confidence = torch.from_numpy(logits).softmax(dim=1).amax(dim=1)
    return {
        "calibration_images": len(truth),
        "calibration_first": float((rank < 1).mean()),
        "calibration_first_five": float((rank < 5).mean()),
        "calibration_confidence": float(confidence.mean()),
        "calibration_error": calibration_error(confidence, torch.from_numpy(rank < 1)),
    }


@torch.inference_mode()
def features_of(network: ImageNetClassifier, images: list[np.ndarray], batch: int = 16) -> Tensor:
    """Features of images, [N, 1280]."""
    parts = [
        network.backbone(network.preprocessing.batch(images[start : start + batch]))
        for start in range(0, len(images), batch)
    ]
    return torch.cat(parts)


COMMAND = Command(
    "make-names",
    "Makes a namer of unknown objects from ImageNet's classifier and word vectors.",
    MakeOptions,
    run_make_names,
    {
        "checkpoint": "the model, a folder relative to result.json",
        "vocabulary": "number of names that it may answer",
        "span_share_mean, span_share_min": "share of the vectors that the seen classes tell",
        "calibration_images, calibration_first, calibration_first_five": "images with a name in "
        "the\n      vocabulary, share whose right name came first and among five; all four\n      "
        "with the confidence fitted on other classes, in five folds",
        "calibration_confidence, calibration_error": "mean confidence of the first name, and its\n"
        "      expected calibration error, mean gap to the share of right ones in 15 bins",
        "temperature, seen_penalty": "of the confidence, fitted on all of them",
    },
)
