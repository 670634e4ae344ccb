# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_core.errors import ConfigError
from newfound_training.source.options import SourceOptions


@pytest.mark.parametrize(
    "wrong", [{"crop_area": (0.5,)}, {"frozen_stages": -1}, {"batch_size": 0}]
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SourceOptions(**wrong)
