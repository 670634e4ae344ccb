# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from newfound_core.errors import ConfigError, DataError
from newfound_core.predictive import Field, Schema

SCHEMA = Schema(
    (
        Field("camera"),
        Field("size", "ordered", values=("small", "medium", "large")),
        Field("gain", "number"),
        Field("hour", "cyclic", period=24.0, weight=2.0),
    )
).fitted(
    [
        {"camera": "kinect", "size": "small", "gain": 2, "hour": 0},
        {"camera": "webcam", "size": "large", "gain": 6, "hour": 12},
    ]
)
FIRST = {"camera": "kinect", "size": "small", "gain": 2, "hour": 0}


def distance(**changes):
    one, other = SCHEMA.encode(FIRST).columns, SCHEMA.encode(FIRST | changes).columns
    return float(np.sqrt(((one - other) ** 2).sum()))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"camera": "webcam"}, 1.0),
        ({"size": "medium"}, 0.5),
        ({"size": "large"}, 1.0),
        ({"gain": 4}, 0.5),
        ({"gain": "10"}, 2.0),  # text, and outside of what is known
        ({"gain": 1e308}, 1e6),  # so far that its square would overflow
        ({"hour": 12}, 2.0),  # opposite, times its weight
        ({"hour": 24}, 0.0),
        ({"hour": 23}, 2 * math.sin(math.pi / 24)),
    ],
)
def test_distances_of_each_kind_of_field_are_those_of_the_table(changes, expected):
    assert distance(**changes) == pytest.approx(expected, abs=1e-12)


def test_a_category_never_seen_and_a_missing_field_tell_nothing_and_are_named():
    encoded = SCHEMA.encode({"camera": "kinnect", "gain": 3})
    assert np.isfinite(encoded.columns).sum() == 1
    assert "did you mean 'kinect'?" in encoded.unknown.pop("camera")
    assert encoded.unknown == {"size": "size is not known", "hour": "hour is not known"}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"camra": "kinect"}, r"no field 'camra'.*did you mean 'camera'\?"),
        ({"size": "hueg"}, "its values are small, medium, large"),
        ({"gain": "high"}, "gain must be a finite number, got 'high'"),
        ({"gain": math.nan}, "gain must be a finite number"),
        ({"hour": math.inf}, "hour must be a finite number"),
    ],
)
def test_what_a_field_cannot_be_is_an_error_that_names_it(metadata, message):
    with pytest.raises(DataError, match=message):
        SCHEMA.encode(metadata)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"name": "a", "kind": "colour"}, "kind must be one of"),
        ({"name": "a", "kind": "ordered"}, "lists its values"),
        ({"name": "a", "weight": 0.0}, "weight must be above 0"),
        ({"name": "a", "unit": "s"}, "unknown properties unit"),
        ({"name": "a", "weight": "heavy"}, "weight cannot be 'heavy'"),
        ({"name": "a", "kind": "ordered", "values": "low"}, "values cannot be 'low'"),
    ],
)
def test_fields_that_make_no_sense_are_refused(properties, message):
    with pytest.raises(ConfigError, match=message):
        Schema.from_values([properties])


def test_the_values_of_an_ordered_field_may_be_numbers():
    schema = Schema.from_values([{"name": "shelf", "kind": "ordered", "values": [1, 2, 3]}])
    assert schema.encode({"shelf": 2}).columns == schema.encode({"shelf": "2"}).columns == [0.5]


def test_a_schema_is_read_back_as_it_was_written():
    assert Schema.from_values(SCHEMA.to_values()) == SCHEMA
