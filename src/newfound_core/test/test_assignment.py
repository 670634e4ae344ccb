# SPDX-License-Identifier: Apache-2.0
import copy
import threading

import pytest
import torch
from newfound_core.assignment import AssignmentContext
from newfound_core.errors import DataError


def test_weights_hold_inside_the_block_only_and_nest():
    context = AssignmentContext()
    outer, inner = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    with context.use(outer):
        with context.use(inner):
            assert context.weights is inner
        assert context.weights is outer
    assert context.weights is None


def test_weights_are_withdrawn_when_the_forward_pass_fails():
    context = AssignmentContext()
    with pytest.raises(RuntimeError), context.use(torch.ones(1)):
        raise RuntimeError
    assert context.weights is None


def test_another_thread_does_not_see_the_weights():
    context = AssignmentContext()
    seen = []
    with context.use(torch.ones(2)):
        thread = threading.Thread(target=lambda: seen.append(context.weights))
        thread.start()
        thread.join()
    assert seen == [None]


def test_a_copied_model_gets_one_context_of_its_own():
    context = AssignmentContext()
    first, second = copy.deepcopy([context, context])
    assert first is second
    assert first is not context


def test_a_missing_assignment_says_what_to_do():
    with pytest.raises(DataError, match=r"with assignment\.use"):
        AssignmentContext().required(images=4, domains=2)


@pytest.mark.parametrize("shape", [(3, 2), (4, 3), (3,)])
def test_an_assignment_of_the_wrong_shape_is_named(shape):
    context = AssignmentContext()
    with context.use(torch.ones(shape)), pytest.raises(DataError, match=r"expected \[4, 2\]"):
        context.required(images=4, domains=2)


def test_labels_are_refused_as_an_assignment():
    with (
        pytest.raises(DataError, match="float tensor"),
        AssignmentContext().use(torch.tensor([0, 1])),
    ):
        pass
