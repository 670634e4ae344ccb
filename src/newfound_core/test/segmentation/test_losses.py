# SPDX-License-Identifier: Apache-2.0
"""The losses against independent code in double precision."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from newfound_core.errors import DataError
from newfound_core.segmentation.losses import (
    plain_cross_entropy,
    plain_distillation,
    unbiased_cross_entropy,
    unbiased_distillation,
)
from newfound_core.segmentation.training import class_weights

OLD, CLASSES = 4, 7


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


@pytest.fixture
def pixels():
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=(2, CLASSES, 5, 3))
    before = 3 * generator.normal(size=(2, OLD, 5, 3))
    labels = generator.choice([0, 1, 4, 5, 6, 255], size=(2, 5, 3)).astype(np.uint8)
    return logits, before, labels


def each(logits):
    for n in range(logits.shape[0]):
        for y in range(logits.shape[2]):
            for x in range(logits.shape[3]):
                yield n, y, x


def test_background_in_the_labels_means_background_or_any_old_class(pixels):
    logits, _, labels = pixels
    terms = []
    for n, y, x in each(logits):
        q, label = softmax(logits[n, :, y, x]), labels[n, y, x]
        if label != 255:
            terms.append(-np.log(q[:OLD].sum() if label < OLD else q[label]))
    found = unbiased_cross_entropy(torch.from_numpy(logits), torch.from_numpy(labels), OLD)
    assert float(found) == pytest.approx(np.mean(terms), abs=1e-12)


def test_weights_count_pixels_by_their_label(pixels):
    logits, _, labels = pixels
    weights = np.linspace(0.5, 2, CLASSES)
    terms = []
    for n, y, x in each(logits):
        q, label = softmax(logits[n, :, y, x]), labels[n, y, x]
        if label != 255:
            terms.append(-weights[label] * np.log(q[:OLD].sum() if label < OLD else q[label]))
    arguments = torch.from_numpy(logits), torch.from_numpy(labels), OLD
    found = unbiased_cross_entropy(*arguments, torch.from_numpy(weights))
    assert float(found) == pytest.approx(np.mean(terms), abs=1e-12)


def test_balanced_weights_are_1_on_average_and_larger_for_rare_classes():
    shares = np.array([0.9, 0.0, 0.09, 0.01])
    weights = class_weights(shares, 0.5).double().numpy()
    assert weights @ shares == pytest.approx(1, abs=1e-6)
    assert weights[3] / weights[0] == pytest.approx(90**0.5, rel=1e-6)
    assert weights[1] == 0
    assert class_weights(shares, 0.0).numpy()[[0, 2, 3]] == pytest.approx([1, 1, 1])


def test_balanced_weights_of_no_pixel_leave_the_loss_zero():
    weights = class_weights(np.zeros(CLASSES), 0.5)
    labels = torch.full((1, 2, 2), 255, dtype=torch.uint8)
    assert unbiased_cross_entropy(torch.randn(1, CLASSES, 2, 2), labels, OLD, weights) == 0


def test_the_old_background_may_be_any_new_class(pixels):
    logits, before, _ = pixels
    terms = []
    for n, y, x in each(logits):
        q, known = softmax(logits[n, :, y, x]), softmax(before[n, :, y, x])
        seen = np.array([q[0] + q[OLD:].sum(), *q[1:OLD]])
        terms.append(-(known * np.log(seen)).sum())
    found = unbiased_distillation(torch.from_numpy(logits), torch.from_numpy(before))
    assert float(found) == pytest.approx(np.mean(terms), abs=1e-12)


def test_the_distillation_of_lwf_knows_old_classes_only(pixels):
    logits, before, _ = pixels
    terms = [
        -(softmax(before[n, :, y, x]) * np.log(softmax(logits[n, :OLD, y, x]))).sum()
        for n, y, x in each(logits)
    ]
    found = plain_distillation(torch.from_numpy(logits), torch.from_numpy(before))
    assert float(found) == pytest.approx(np.mean(terms), abs=1e-12)


def test_only_pixels_that_count_are_distilled(pixels):
    logits, before, labels = (torch.from_numpy(values) for values in pixels)
    counted = labels < OLD
    apart = [
        unbiased_distillation(logits[n, :, y, x][None, :, None, None],
                              before[n, :, y, x][None, :, None, None])
        for n, y, x in each(logits) if counted[n, y, x]
    ]  # fmt: skip
    found = unbiased_distillation(logits, before, counted)
    assert float(found) == pytest.approx(float(torch.stack(apart).mean()), abs=1e-12)


def test_without_old_classes_it_is_plain_cross_entropy(pixels):
    logits, _, labels = (torch.from_numpy(values) for values in pixels)
    expected = functional.cross_entropy(logits, labels.long(), ignore_index=255)
    assert float(plain_cross_entropy(logits, labels)) == pytest.approx(float(expected), abs=1e-12)


def test_the_first_class_ever_has_nothing_to_distil(pixels):
    logits = torch.from_numpy(pixels[0]).requires_grad_()
    loss = unbiased_distillation(logits, torch.from_numpy(pixels[1])[:, :1])
    assert loss.item() == 0


def test_where_no_pixel_is_labelled_the_loss_is_zero_and_so_is_its_gradient():
    logits = torch.randn(1, CLASSES, 2, 2).requires_grad_()
    labels = torch.full((1, 2, 2), 255, dtype=torch.uint8)
    for loss in (
        unbiased_cross_entropy(logits, labels, OLD),
        unbiased_distillation(logits, torch.randn(1, OLD, 2, 2), torch.zeros(1, 2, 2)),
    ):
        loss.backward()
        assert loss.item() == 0
        assert float(logits.grad.abs().max()) == 0


def test_extreme_logits_stay_finite():
    logits = (1e4 * torch.randn(1, CLASSES, 2, 2)).requires_grad_()
    labels = torch.zeros(1, 2, 2, dtype=torch.uint8)
    loss = unbiased_cross_entropy(logits, labels, OLD)
    (loss + unbiased_distillation(logits, 1e4 * torch.randn(1, OLD, 2, 2))).backward()
    assert logits.grad.isfinite().all()


def test_an_old_label_counts_as_background(pixels):
    logits, _, labels = (torch.from_numpy(values) for values in pixels)
    cleared = torch.where(labels < OLD, torch.zeros_like(labels), labels)
    assert unbiased_cross_entropy(logits, labels, OLD) == unbiased_cross_entropy(
        logits, cleared, OLD
    )


def test_gradients_are_those_of_finite_differences(pixels):
    logits, before, labels = (torch.from_numpy(v[:1, ..., :2, :2].copy()) for v in pixels)
    logits = logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: unbiased_cross_entropy(z, labels, OLD), logits)
    assert torch.autograd.gradcheck(lambda z: unbiased_distillation(z, before), logits)


def test_a_label_outside_of_the_classes_is_refused():
    labels = torch.full((1, 2, 2), CLASSES, dtype=torch.uint8)
    with pytest.raises(DataError, match="labelled 7, but there are 7 classes"):
        unbiased_cross_entropy(torch.zeros(1, CLASSES, 2, 2), labels, 1)


def test_labels_of_another_size_are_refused():
    with pytest.raises(DataError, match="enlarge the logits"):
        plain_cross_entropy(torch.zeros(1, 2, 4, 4), torch.zeros(1, 8, 8, dtype=torch.uint8))
