# SPDX-License-Identifier: Apache-2.0
import pytest

from newfound_web.engine import QueryEngine, WebSettings
from newfound_web.errors import SettingsError


class Blind:
    """A network that knows nothing, and counts how often it was loaded."""

    loaded = 0

    def __init__(self):
        Blind.loaded += 1

    def features(self, rgb):
        return rgb.mean(axis=(0, 1))

    def names(self, rgb, count):
        return [("thing", 1.0)]


@pytest.fixture
def engine(tmp_path):
    def make(environment=None, **changes):
        settings = WebSettings(cache_folder=tmp_path / "c", image_folder=tmp_path / "i", **changes)
        return QueryEngine(settings, Blind, environment or {})

    return make


def names(engine):
    return (
        [provider.name for provider in engine.labeller._providers],
        [provider.name for provider in engine.collector._providers],
    )


def test_providers_are_made_in_the_order_of_their_names(engine, tmp_path, photo):
    (tmp_path / "library" / "mug").mkdir(parents=True)
    (tmp_path / "library" / "mug" / "1.jpg").write_bytes(photo(1))
    made = engine(
        {"GOOGLE_VISION_API_KEY": "k"},
        label_providers=("library", "google_vision", "imagenet"),
        image_providers=("wikimedia", "library", "openverse"),
        library_folder=tmp_path / "library",
    )
    assert names(made) == (
        ["library", "google_vision", "imagenet"],
        ["wikimedia", "library", "openverse"],
    )


def test_the_network_is_not_loaded_when_no_provider_needs_it(engine):
    before = Blind.loaded
    engine(label_providers=(), filter_outliers=False)
    assert Blind.loaded == before


@pytest.mark.parametrize(
    ("changes", "environment", "told"),
    [
        ({"label_providers": ("google_vision",)}, {}, "GOOGLE_VISION_API_KEY"),
        ({"label_providers": ("oracle",)}, {}, "no provider 'oracle'.*google_vision"),
        ({"image_providers": ("library",)}, {}, "library_folder"),
        ({}, {"OPENVERSE_CLIENT_ID": "x"}, "OPENVERSE_CLIENT_SECRET, or neither"),
    ],
)
def test_what_a_person_has_to_set_is_named(engine, changes, environment, told):
    with pytest.raises(SettingsError, match=told):
        engine(environment, **changes)
