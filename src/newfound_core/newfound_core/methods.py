# SPDX-License-Identifier: Apache-2.0
"""The methods a checkpoint can be of, and what must hold for the tensors of each.

A new method is a line here and a builder in `models`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """What a checkpoint of one method can be checked for before its model is built."""

    label_tensor: str  # its first dimension counts the labels; empty: there are no classes
    infinite: tuple[str, ...] = ()  # tensors in which infinity has a meaning


_CLASSIFIER = Method("classifier.weight")
# A rejection threshold that is not fitted yet is infinite.
_OPEN_WORLD = Method("head.means.value", infinite=("head.rejection_threshold",))

METHODS: dict[str, Method] = {
    "source": _CLASSIFIER,  # a plain classifier; ONDA starts from it
    "bn": _CLASSIFIER,  # places: the baseline
    "wbn": _CLASSIFIER,  # places: known or latent domains, by its option `latent`
    "bsf": _CLASSIFIER,
    "ncm": _OPEN_WORLD,
    "nno": _OPEN_WORLD,
    "deepnno": _OPEN_WORLD,
    "bdoc": _OPEN_WORLD,
    "rpn": Method(""),  # finds objects without naming them; its one label is "object"
}
