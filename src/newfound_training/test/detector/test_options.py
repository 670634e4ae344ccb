# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_training.detector.options import DetectorOptions


@pytest.mark.parametrize(
    "wrong",
    [
        {"source_shares": (1,)},
        {"source_shares": (1, 0)},
        {"background_weight": 2},
        {"paste_probability": -1},
        {"validation_share": 1},
        {"frozen_stages": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))}|--source-shares"):
        DetectorOptions(sources=("few", "many"), **wrong)


def test_the_pictures_are_those_of_the_sources_or_of_the_data_itself(boxes_data):
    assert {k: len(v) for k, v in DetectorOptions(data=str(boxes_data)).by_source().items()} == {
        "data": 24
    }
    chosen = DetectorOptions(
        data=str(boxes_data), sources=("bright", "dark"), report_every=(0, 3)
    ).by_source()
    assert {k: len(v) for k, v in chosen.items()} == {"bright": 12, "dark": 8}
