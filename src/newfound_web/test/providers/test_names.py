# SPDX-License-Identifier: Apache-2.0
import asyncio

import numpy as np
import pytest

from newfound_core.errors import DataError
from newfound_core.naming import NameAnswer
from newfound_web.errors import NoIdeaError
from newfound_web.pictures import Picture
from newfound_web.providers.names import Names, load_namer
from tests import ROOT

VIEW = Picture(np.full((40, 40, 3), 128, np.uint8), "")


def provider(*answers, limit=0.1):
    asked = []

    def namer(views, count, exclude):
        asked.append((len(views), count, exclude))
        return answers

    return Names(namer, limit), asked


def test_views_and_names_to_leave_out_are_passed_on():
    names, asked = provider(NameAnswer("teapot", 0.4, 0.9))
    (found,) = asyncio.run(names.candidates_of_views([VIEW, VIEW], 5, ["mug"]))
    assert (found.label, found.confidence, found.provider) == ("teapot", 0.4, "names")
    assert found.span_share == 0.9
    assert asked == [(2, 5, ["mug"])]


def test_below_the_limit_there_is_no_idea():
    names, _ = provider(NameAnswer("teapot", 0.05, 0.9))
    with pytest.raises(NoIdeaError, match="no idea; the best name, teapot, has 5%"):
        asyncio.run(names.candidates(VIEW, 5))
    with pytest.raises(NoIdeaError, match=r"^no idea$"):
        asyncio.run(provider()[0].candidates(VIEW, 5))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "stock.txt"
    path.write_text("teapot\nclaw hammer\nred wine glass\n")
    return path


def test_the_shipped_model_answers_from_a_file_of_names(vocabulary):
    namer = load_namer(ROOT / "models" / "names", vocabulary, 0.0)
    random = np.random.default_rng(0).integers(0, 256, (64, 80, 3), dtype=np.uint8)
    found = namer([random, random[:, ::-1]], 5, ["Teapot"])
    assert {a.name for a in found} == {"claw hammer", "red wine glass"}
    assert sum(a.confidence for a in found) == pytest.approx(1)


def test_names_without_a_vector_are_refused_with_similar_ones(tmp_path):
    (tmp_path / "stock.txt").write_text("teapott\n")
    with pytest.raises(DataError, match="similar: teapot"):
        load_namer(ROOT / "models" / "names", tmp_path / "stock.txt", 0.0)
