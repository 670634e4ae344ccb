# SPDX-License-Identifier: Apache-2.0
"""ImageNet's thousand classes as seen classes, without any training.

Their names are those of torchvision, made unmistakable: breeds get their kind ("Chihuahua dog"),
homonyms an alias.
"""

import numpy as np
import torch

from newfound_core.classifier import ImageNetClassifier, imagenet_labels
from newfound_core.naming import (
    NameEncoder,
    NamingConfig,
    NamingModel,
    plain_name,
    ridge_projection,
)

# First and last class, and what all of them are.
KINDS = (
    (0, 6, "fish"), (7, 24, "bird"), (33, 37, "turtle"), (38, 48, "lizard"), (52, 68, "snake"),
    (80, 100, "bird"), (127, 146, "bird"), (151, 268, "dog"), (281, 285, "cat"),
    (300, 319, "insect"), (321, 326, "butterfly"), (365, 382, "monkey"), (389, 397, "fish"),
)  # fmt: skip
# By number, because two classes are called crane, and two maillot.
ALIASES = {
    97: "drake duck", 134: "crane bird", 517: "construction crane", 639: "tank suit swimsuit",
    638: "maillot swimsuit", 673: "computer mouse", 948: "granny smith green apple",
    998: "ear of corn", 989: "rose hip", 737: "pop bottle soda bottle", 418: "ballpoint pen",
}  # fmt: skip
TEMPERATURES = tuple(np.geomspace(0.02, 1.0, 50).tolist())
PENALTIES = tuple(np.linspace(0.0, 5.0, 51).tolist())
OBJECTS = 398  # the classes from here on are things, food and scenes; those before are animals


def class_names() -> tuple[str, ...]:
    """The thousand names, each different."""
    return tuple(
        _name(number, plain_name(label)) for number, label in enumerate(imagenet_labels())
    )


def _name(number: int, label: str) -> str:
    if number in ALIASES:
        return ALIASES[number]
    for first, last, kind in KINDS:
        if first <= number <= last and not label.endswith(kind):
            return f"{label} {kind}"
    return label


def object_names() -> tuple[str, ...]:
    """Names of ImageNet's things, for a vocabulary."""
    found = [plain_name(label) for label in imagenet_labels()[OBJECTS:]]
    return tuple(dict.fromkeys(found))


def naming_model(
    network: ImageNetClassifier,
    encoder: NameEncoder,
    vocabulary: tuple[str, ...],
    config: NamingConfig,
    *,
    sharpness: float = 1.0,
    ridge: float = 1.0,
) -> NamingModel:
    """A model of ImageNet's classifier.

    convex (ConSE): the classifier itself, its logits times `sharpness`. linear (ridge): regression
    from its centred rows of length one, as prototypes of their classes, to the names' vectors.
    """
    seen, names = encoder.encode(class_names()), encoder.encode(vocabulary)
    width = names.vectors.shape[1]
    model = NamingModel(network.backbone, len(seen.names), vocabulary, width, config)
    model.set_vectors(seen.vectors, names.vectors)
    rows = network.classifier.weight.detach().double()
    if config.form == "convex":
        weight, bias = sharpness * rows, sharpness * network.classifier.bias.detach()
    else:
        centred = rows - rows.mean(dim=0)
        prototypes = (centred / centred.norm(dim=1, keepdim=True)).numpy()
        vectors = model._centred(model.class_vectors).double().numpy()
        weight, bias = map(torch.from_numpy, ridge_projection(prototypes, vectors, ridge))
    with torch.no_grad():
        model.projection.weight.copy_(weight)
        model.projection.bias.copy_(bias)
    return model.eval()


def fitted_confidence(
    cosines: np.ndarray, truth: np.ndarray, seen: np.ndarray
) -> tuple[float, float]:
    """Temperature and seen_penalty that make the true names of labelled images most probable.

    `cosines` [N, V]; `truth` the column of the right name; `seen` [V] names of seen classes. The
    loss is convex in 1 / temperature and the penalty: one after the other on a grid finds it.
    """
    temperature, penalty = 0.1, 0.0
    for _ in range(4):
        loss = {t: _loss(cosines / t - penalty * seen, truth) for t in TEMPERATURES}
        temperature = min(loss, key=loss.__getitem__)
        loss = {d: _loss(cosines / temperature - d * seen, truth) for d in PENALTIES}
        penalty = min(loss, key=loss.__getitem__)
    return temperature, penalty


def _loss(logits: np.ndarray, truth: np.ndarray) -> float:
    top = logits.max(axis=1)
    log_sum = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top
    return float(np.mean(log_sum - logits[np.arange(len(truth)), truth]))
