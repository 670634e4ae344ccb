# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.errors import DataError
from newfound_core.naming.embeddings import (
    NameEncoder,
    center,
    read_aliases,
    read_names,
    span_shares,
    split_name,
)
from newfound_core.naming.word_files import WordVectors

RANDOM = np.random.default_rng(0)
WORDS = {w: RANDOM.normal(size=6) for w in
         ["tea", "pot", "claw", "hammer", "brush", "paint", "knives", "ice_cream", "mouse",
          "computer", "the", "sieve", "shelf", "wife"]}  # fmt: skip


def encoder(**aliases):
    vectors = WordVectors(np.stack(list(WORDS.values())), {w: i for i, w in enumerate(WORDS)})
    return NameEncoder(vectors, aliases)


def unit(*words):
    mean = np.mean([WORDS[w] for w in words], axis=0)
    return mean / np.linalg.norm(mean)


@pytest.mark.parametrize("name", ["claw_hammer", "Claw hammer", "ClawHammer", "claw-hammer"])
def test_a_name_of_several_words_is_their_mean(name):
    vector, dropped = encoder().vector(name)
    assert np.allclose(vector, unit("claw", "hammer"))
    assert not dropped


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hammers", ["hammer"]),
        ("knive", ["knives"]),
        ("sieves", ["sieve"]),
        ("shelves", ["shelf"]),
        ("wives", ["wife"]),
        ("ice cream", ["ice_cream"]),
        ("paintbrush", ["paint", "brush"]),
        ("the hammer", ["hammer"]),
        ("the", ["the"]),
        ("pot (of clay)", ["pot"]),
    ],
)
def test_plurals_phrases_compounds_and_stop_words(name, words):
    assert np.allclose(encoder().vector(name)[0], unit(*words))


def test_a_missing_modifier_is_left_out_with_a_warning(caplog):
    found = encoder().encode(["stubby hammer", "tea"])
    assert np.allclose(found.vectors[0], unit("hammer"))
    assert "stubby" in found.warnings[0]
    assert "no vector of 'stubby', which is left out" in caplog.text


def test_names_without_a_head_are_listed_with_similar_spellings():
    with pytest.raises(DataError, match=r"'claw hamer' \(similar: hammer\).*'qqq'"):
        encoder().encode(["claw hamer", "tea", "qqq"])


def test_an_alias_says_what_is_meant():
    found = encoder(mouse="computer mouse").encode(["Mouse"])
    assert np.allclose(found.vectors[0], unit("computer", "mouse"))


def test_two_names_with_one_vector_are_refused():
    with pytest.raises(DataError, match="'hammer' and 'hammers'"):
        encoder().encode(["hammer", "tea", "hammers"])
    with pytest.raises(DataError, match="'tea' and 'tea'"):
        encoder().encode(["tea", "hammer", "tea"])


def test_the_share_of_a_name_is_what_observations_of_the_seen_ones_leave_known():
    seen, asked = RANDOM.normal(size=(7, 5)), RANDOM.normal(size=(3, 5))
    # A Gaussian w ~ N(0, I) of which seen @ w was observed with unit noise.
    left = np.linalg.inv(np.eye(5) + seen.T @ seen)
    expected = [1 - (v @ left @ v) / (v @ v) for v in asked]
    assert np.allclose(span_shares(asked, seen), expected)
    assert np.allclose(span_shares(np.eye(3), np.eye(3)[:1]), [0.5, 0, 0])


def test_a_thousand_classes_do_not_tell_every_name_alike():
    seen = RANDOM.normal(size=(1000, 20)) * np.geomspace(1, 1e-3, 20)
    shares = span_shares(np.eye(20), seen)
    assert shares[0] > 0.99
    assert shares[-1] < 0.01


def test_centred_vectors_have_length_one():
    vectors = RANDOM.normal(size=(5, 4)) + 3
    found = center(vectors, vectors.mean(axis=0))
    assert np.allclose(np.linalg.norm(found, axis=1), 1)


def test_of_a_vocabulary_of_one_name_centring_leaves_nothing():
    with pytest.raises(DataError, match="at least two names"):
        center(np.ones((1, 4)), np.ones(4))


def test_files_of_names_and_aliases(tmp_path):
    (tmp_path / "n").write_text("\ufefftea pot # for tea\n\nhammer\nTea_pot\n", "utf-8")
    assert read_names(tmp_path / "n") == ("tea pot", "hammer")
    (tmp_path / "a").write_text("bat: baseball bat\n")
    assert read_aliases(tmp_path / "a") == {"bat": "baseball bat"}
    (tmp_path / "a").write_text("- bat\n")
    for read in (read_aliases, read_names):
        with pytest.raises(DataError):
            read(tmp_path / "missing")
    with pytest.raises(DataError):
        read_aliases(tmp_path / "a")


def test_words_of_a_name():
    assert split_name("Alpro-Fresh_SoyMilk's") == ["alpro", "fresh", "soy", "milk"]
