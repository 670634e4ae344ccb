# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from newfound_core.errors import DataError
from newfound_training.data.images import ImageSet, Listed


class Named:
    def __init__(self, name):
        self.name = name


def listed(*triples):
    return [Listed(Named(name), label, domain) for name, label, domain in triples]


def test_the_order_does_not_depend_on_the_order_of_the_listing(tmp_path):
    items = listed(("b", "cat", "x"), ("a", "cat", "x"), ("c", "ant", "y"), ("d", "ant", "x"))
    one, other = ImageSet.of(tmp_path, items), ImageSet.of(tmp_path, items[::-1])
    assert [s.name for s in one.sources] == [s.name for s in other.sources] == ["d", "a", "b", "c"]
    assert one.class_names == ("ant", "cat")
    np.testing.assert_array_equal(one.labels, [0, 1, 1, 0])
    np.testing.assert_array_equal(one.domains, [0, 0, 0, 1])


def test_a_domain_keeps_the_class_indices_of_the_whole(tmp_path):
    images = ImageSet.of(tmp_path, listed(("a", "ant", "x"), ("b", "bee", "y")))
    np.testing.assert_array_equal(images.in_domain("y").labels, [1])


def test_an_unknown_domain_is_named_beside_the_known_ones(tmp_path):
    images = ImageSet.of(tmp_path, listed(("a", "ant", "x")))
    with pytest.raises(DataError, match="no domain 'z'; it has x"):
        images.in_domain("z")


def test_a_class_missing_in_a_domain_is_named(tmp_path):
    images = ImageSet.of(tmp_path, listed(("a", "ant", "x"), ("b", "bee", "x"), ("c", "ant", "y")))
    images.require_every_class(["x"])
    with pytest.raises(DataError, match=r"'y' .* has no images of bee"):
        images.require_every_class(["x", "y"])


def test_classes_that_differ_only_in_case_are_refused(tmp_path):
    with pytest.raises(DataError, match="'Cat' and 'cat' differ only in case"):
        ImageSet.of(tmp_path, listed(("a", "Cat", "x"), ("b", "cat", "y")))


def test_no_images_at_all_is_an_error(tmp_path):
    with pytest.raises(DataError, match="holds no images"):
        ImageSet.of(tmp_path, [])
