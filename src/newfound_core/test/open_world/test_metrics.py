# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import torch

from newfound_core.errors import DataError
from newfound_core.open_world.head import Decision
from newfound_core.open_world.metrics import auroc, average, evaluate, harmonic_mean


def decision(label, nearest, score):
    n = torch.zeros(len(label))
    return Decision(torch.tensor(label), torch.tensor(nearest), torch.tensor(score), n, n, n)


# Five knowns and four unknowns, by hand:
#   truth    0     0     1     1     1    | unknown x 4
#   nearest  0     0     1     0     1
#   label    0  unknown  1     0  unknown | three rejected, one taken for class 1
TRUTH = torch.tensor([0, 0, 1, 1, 1, -1, -1, -1, -1])
DECISION = decision(
    [0, -1, 1, 0, -1, -1, -1, 1, -1],
    [0, 0, 1, 0, 1, 0, 1, 1, 0],
    [0.9, 0.2, 0.8, 0.7, 0.3, 0.1, 0.25, 0.75, 0.3],
)


def test_every_metric_of_a_hand_worked_example():
    found = evaluate(TRUTH, DECISION)
    assert found.closed_world_without_rejection == pytest.approx(4 / 5)
    assert found.closed_world_with_rejection == pytest.approx(2 / 5)
    assert found.open_set == pytest.approx(3 / 4)
    assert found.owr == pytest.approx((0.4 + 0.75) / 2)
    assert found.owr_harmonic == pytest.approx(2 * 0.4 * 0.75 / 1.15)
    # Knowns above unknowns: .9 beats 4, .2 beats 1, .8 beats 4, .7 beats 3, .3 beats 2 and ties 1.
    assert found.auroc == pytest.approx((4 + 1 + 4 + 3 + 2.5) / 20)
    # Rejection table: of four knowns whose nearest class is right, two were rejected.
    assert found.correct_knowns_rejected == pytest.approx(2 / 4)
    assert found.unknowns_rejected == pytest.approx(3 / 4)
    assert found.rejection_difference == pytest.approx(1 / 4)


def test_the_average_over_steps_leaves_out_what_a_step_could_not_say():
    first = evaluate(TRUTH, DECISION)
    only_knowns = evaluate(torch.tensor([0, 1]), decision([0, 0], [0, 0], [1.0, 1.0]))
    assert only_knowns.open_set is only_knowns.owr is only_knowns.auroc is None
    mean = average([first, only_knowns])
    assert mean.closed_world_with_rejection == pytest.approx((0.4 + 0.5) / 2)
    assert mean.open_set == first.open_set


def test_only_unknowns_leave_the_closed_world_open():
    found = evaluate(torch.tensor([-1, -1]), decision([-1, 0], [0, 0], [0.0, 1.0]))
    assert found.closed_world_with_rejection is None
    assert found.open_set == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_auroc_equals_the_share_of_all_pairs(seed):
    generator = np.random.default_rng(seed)
    known, unknown = (
        np.round(generator.normal(1, 1, 40), 1),
        np.round(generator.normal(0, 1, 30), 1),
    )
    pairs = known[:, None] - unknown[None]
    expected = (pairs > 0).mean() + (pairs == 0).mean() / 2
    assert auroc(torch.tensor(known), torch.tensor(unknown)) == pytest.approx(expected)


def test_auroc_of_scores_without_thresholds_takes_infinity():
    assert auroc(torch.tensor([0.0, -torch.inf]), torch.tensor([-torch.inf])) == 0.75


def test_the_harmonic_mean_of_nothing_is_nothing():
    assert harmonic_mean(0.0, 0.0) == 0.0


def test_counts_that_differ_are_refused():
    with pytest.raises(DataError, match="2 true classes for 9 decisions"):
        evaluate(TRUTH[:2], DECISION)
