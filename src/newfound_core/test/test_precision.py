# SPDX-License-Identifier: Apache-2.0
import torch

from newfound_core.precision import autocast


def test_products_are_computed_in_the_precision_asked_for():
    ones = torch.ones(2, 2)
    for precision, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        with autocast(precision, ones.device):
            assert (ones @ ones).dtype == kind
