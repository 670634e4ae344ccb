# SPDX-License-Identifier: Apache-2.0
from typing import NamedTuple

import pytest
import torch
from newfound_core.errors import DataError
from newfound_core.onda.frames import as_batch_of_one, label_and_entropy, logits_of


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 3, 8, 8), (5,), (1, 5)])
def test_one_frame_or_vector_becomes_a_batch_of_one(shape):
    assert as_batch_of_one(torch.zeros(shape)).shape[0] == 1


@pytest.mark.parametrize("bad", [torch.zeros(2, 3, 8, 8), torch.zeros(3, 8, 8).byte()])
def test_several_frames_or_raw_pixels_are_refused(bad):
    with pytest.raises(DataError, match="one frame"):
        as_batch_of_one(bad)


def test_logits_are_found_in_a_tuple_that_names_them():
    class Output(NamedTuple):
        domain: int
        logits: torch.Tensor

    logits = torch.zeros(1, 3)
    assert logits_of(Output(0, logits)) is logits
    with pytest.raises(DataError, match="logits"):
        logits_of({"a": logits})


def test_entropy_is_one_for_ignorance_and_zero_for_certainty():
    assert label_and_entropy(torch.zeros(4)) == (0, pytest.approx(1.0))
    assert label_and_entropy(torch.tensor([0.0, 100.0])) == (1, pytest.approx(0.0))
