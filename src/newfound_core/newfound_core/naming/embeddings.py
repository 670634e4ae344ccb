# SPDX-License-Identifier: Apache-2.0
"""Vectors of class names from vectors of words.

A name of several words is the mean of its words' vectors, as in the published file of CuMix's
authors ("baseball_bat" is (baseball + bat) / 2); all vectors have length one. The last word is the
head: without its vector a name is refused, without that of another word it loses this word.
"""

import difflib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from newfound_core.errors import ConfigError, DataError
from newfound_core.naming.word_files import WordVectors

_log = logging.getLogger(__name__)
STOP_WORDS = frozenset({"the", "of", "a", "an", "and", "for", "in", "on", "with", "to"})
_JOINT = re.compile(r"[\s_\-/]+|(?<=[a-z])(?=[A-Z])")
_NOTE = re.compile(r"\(.*?\)|'s\b|[.,']")


@dataclass(frozen=True)
class NameVectors:
    """Names, their vectors of length one [N, width], and what was left out of them."""

    names: tuple[str, ...]
    vectors: np.ndarray
    warnings: tuple[str, ...] = ()


def split_name(name: str) -> list[str]:
    """The words of a name in lower case: "ClawHammer", "claw_hammer" and "Claw hammer" agree."""
    return [word.lower() for word in _JOINT.split(_NOTE.sub("", name)) if word]


def plain_name(name: str) -> str:
    """A name for comparison: its words, with a blank between them."""
    return " ".join(split_name(name))


def word_forms(word: str) -> Iterator[str]:
    """The word, then its singular or plural, as English forms them."""
    yield word
    if word.endswith("ies") and len(word) > 4:
        yield word[:-3] + "y"
    if word.endswith("ves") and len(word) > 4:
        yield from (word[:-3] + "fe", word[:-3] + "f")
    for ending in ("es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            yield word.removesuffix(ending)
    if word.endswith("y"):
        yield word[:-1] + "ies"
    yield word + "s"
    yield word + "es"


class NameEncoder:
    """Makes vectors of names; `aliases` say in other words what a name means."""

    def __init__(self, words: WordVectors, aliases: Mapping[str, str] | None = None) -> None:
        self._words = words
        self._aliases = {plain_name(name): text for name, text in (aliases or {}).items()}

    def encode(self, names: Sequence[str]) -> NameVectors:
        """All names, or a DataError that lists those without a vector, or with the same one."""
        vectors, warnings, missing = [], [], []
        for name in names:
            vector, dropped = self.vector(name)
            if vector is None:
                missing.append(f"{name!r}{self._near(name)}")
                continue
            vectors.append(vector)
            warnings += [f"{name!r}: no vector of {word!r}, which is left out" for word in dropped]
        if missing:
            raise DataError(
                f"no vector of the head of {', '.join(missing)}: choose other names, or say what "
                "they mean in the file of aliases (claw_hammer: hammer tool)"
            )
        if warnings:
            _log.warning("%s", "; ".join(warnings))
        found = np.stack(vectors) if vectors else np.zeros((0, self._words.width))
        refuse_duplicates(names, found)
        return NameVectors(tuple(names), found, tuple(warnings))

    def vector(self, name: str) -> tuple[np.ndarray | None, list[str]]:
        """The vector of a name, None if its head has none; and the words without one."""
        every = split_name(self._aliases.get(plain_name(name), name))
        words = [w for w in every if w not in STOP_WORDS] or every
        for phrase in (every, words):
            whole = self._phrase(phrase)
            if whole is not None:
                return _unit(whole), []
        found = [self._word(word) for word in words]
        if not found or found[-1] is None:
            return None, words
        kept = [vector for vector in found if vector is not None]
        dropped = [word for word, vector in zip(words, found, strict=True) if vector is None]
        return _unit(np.mean(kept, axis=0)), dropped

    def _phrase(self, words: Sequence[str]) -> np.ndarray | None:
        """The vector of the phrase, where the file has phrases: `ice_cream`."""
        if len(words) < 2:
            return None
        for joint in ("_", "-"):
            vector = _usable(self._words.find(joint.join(words)))
            if vector is not None:
                return vector
        # Two parts of a compound: paint brush, paintbrush. Only if the head alone is missing.
        if self._word(words[-1]) is None:
            return _usable(self._words.find("".join(words)))
        return None

    def _word(self, word: str) -> np.ndarray | None:
        for form in word_forms(word):
            for spelling in (form, form.capitalize()):
                vector = _usable(self._words.find(spelling))
                if vector is not None:
                    return vector
        return self._compound(word)

    def _compound(self, word: str) -> np.ndarray | None:
        """A compound of two words that have vectors: paintbrush from paint and brush."""
        for cut in range(len(word) - 3, 2, -1):
            first, second = (_usable(self._words.find(w)) for w in (word[:cut], word[cut:]))
            if first is not None and second is not None:
                return (first + second) / 2
        return None

    def _near(self, name: str) -> str:
        words = split_name(name)
        near = difflib.get_close_matches(words[-1] if words else "", self._words.spellings(), 3)
        return f" (similar: {', '.join(near)})" if near else ""


def refuse_duplicates(names: Sequence[str], vectors: np.ndarray) -> None:
    """A DataError if two names have the same vector: nothing could tell them apart."""
    first: dict[bytes, int] = {}
    for number, vector in enumerate(np.asarray(vectors, np.float32)):
        other = first.setdefault(vector.tobytes(), number)
        if other != number:
            raise DataError(f"{names[other]!r} and {names[number]!r} have the same vector: leave "
                            "one out, or give it an alias")  # fmt: skip


def read_names(path: Path) -> tuple[str, ...]:
    """A file of names, one on a line; what follows a # is a comment."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a readable file of names: {error}") from error
    names = [line.partition("#")[0].strip() for line in lines]
    unique = {plain_name(name): name for name in reversed(names) if name}
    if not unique:
        raise DataError(f"{path} holds no name")
    return tuple(name for name in names if name and unique[plain_name(name)] is name)


def read_aliases(path: Path) -> dict[str, str]:
    """A YAML file of aliases, `name: what it means in other words`."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{path} is not a readable file of aliases: {error}") from error
    texts = isinstance(values, dict) and all(
        isinstance(x, str) for pair in values.items() for x in pair
    )
    if not texts:
        raise DataError(f"{path} is not a table of `name: meaning`")
    return dict(values)


def center(vectors: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Subtract the mean of a vocabulary and scale to length one: names that are near all others,
    hubs, come near fewer.
    """
    moved = vectors - mean
    lengths = np.linalg.norm(moved, axis=1, keepdims=True)
    if not (lengths > 1e-9).all():
        raise DataError("a name has the mean vector of the vocabulary, of which centring leaves "
                        "nothing: give at least two names, or do not centre")  # fmt: skip
    return moved / lengths


def span_shares(vectors: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Share of each vector that the seen classes tell, v' G (G + I)^-1 v / v'v, G = seen' seen.

    What is learned from the seen classes lies in their span. But a thousand names span every
    dimension, most of them hardly: so each class counts as one observation with noise as large as
    a name, and the share is the variance along v that is known afterwards, in [0, 1). A direction
    in which one class lies has 1/2, and one in which none lies 0.
    """
    if len(seen) == 0:
        raise ConfigError("there are no seen classes")
    _, sizes, basis = np.linalg.svd(np.asarray(seen, np.float64), full_matrices=False)
    known = np.square(sizes) / (np.square(sizes) + 1)
    inside = np.square(np.asarray(vectors, np.float64) @ basis.T) @ known
    return inside / np.maximum(np.square(vectors).sum(axis=1), 1e-12)


def _usable(vector: np.ndarray | None) -> np.ndarray | None:
    return vector if vector is not None and np.linalg.norm(vector) > 1e-6 else None


def _unit(vector: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vector)
    if not length > 1e-9:
        raise DataError("a name has a vector of length zero")
    return vector / length
