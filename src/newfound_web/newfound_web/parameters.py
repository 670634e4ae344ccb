# SPDX-License-Identifier: Apache-2.0
"""Parameters of the node, and the settings made from them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from newfound_runtime.parameters import Parameter
from newfound_runtime.shipped_models import find_checkpoint
from newfound_web.collecting import CollectSettings
from newfound_web.engine import WebSettings
from newfound_web.fetching import FetchSettings, RetryPolicy
from newfound_web.pictures import PictureLimits
from newfound_web.providers import google_vision, openverse, wikimedia

MEGA = 1_000_000


def _folder(variable: str, fallback: str) -> Path:
    """A user's base folder (XDG)."""
    base = os.environ.get(variable, "")
    return Path(base) if Path(base).is_absolute() else Path.home() / fallback


def default_image_folder() -> Path:
    """Default of the parameter image_folder."""
    return _folder("XDG_DATA_HOME", ".local/share") / "newfound" / "images"


def default_cache_folder() -> Path:
    """Default of the parameter cache_folder."""
    return _folder("XDG_CACHE_HOME", ".cache") / "newfound" / "web"


def _is_address(value: str) -> str | None:
    return None if value.startswith(("https://", "http://")) else "expected http(s)://…"


def _is_header_text(value: str) -> str | None:
    good = value.isascii() and (value.isprintable() or not value)
    return None if good else "expected printable ASCII: it goes into a header"


def _per_minute(provider: str, default: float) -> Parameter:
    text = f"Maximum rate of requests to {provider} (1/min), after a burst of five."
    return Parameter(f"{provider}_per_minute", default, text, minimum=0.1, maximum=6000.0)


PARAMETERS = (
    Parameter(
        "label_providers",
        ["imagenet"],
        "Queried in this order: imagenet, names, library, google_vision, or another package's.",
    ),
    Parameter(
        "image_providers",
        ["openverse", "wikimedia"],
        "Queried in this order: library, openverse, wikimedia, or another package's.",
    ),
    Parameter(
        "library_folder", "", "Folder of the provider library, with a subfolder for each label."
    ),
    Parameter(
        "image_folder", "", "Folder of fetched images; empty: ~/.local/share/newfound/images."
    ),
    Parameter("image_folder_mb", 2000, "Maximum size of image_folder (MB).", minimum=1),
    Parameter(
        "min_free_mb", 200, "Minimum free space on the disk of image_folder (MB).", minimum=0
    ),
    Parameter(
        "cache_folder", "", "Folder of cached answers and images; empty: ~/.cache/newfound/web."
    ),
    Parameter("cache_mb", 500, "Maximum size of the cache (MB); 0 disables it.", minimum=0),
    Parameter(
        "cache_days", 7.0, "Maximum age of a cache entry (days).", minimum=0.0, maximum=3650.0
    ),
    Parameter(
        "max_candidates",
        5,
        "Default maximum number of label candidates, if the request says 0.",
        minimum=1,
        maximum=100,
        live=True,
    ),
    Parameter(
        "max_images",
        30,
        "Default maximum number of images, if the request says 0.",
        minimum=1,
        maximum=500,
        live=True,
    ),
    Parameter(
        "label_timeout",
        15.0,
        "Default timeout of a label query (s), if the request says 0.",
        minimum=0.1,
        maximum=600.0,
        live=True,
    ),
    Parameter(
        "fetch_timeout",
        60.0,
        "Default timeout of an image fetch (s), if the request says 0.",
        minimum=0.1,
        maximum=600.0,
        live=True,
    ),
    Parameter(
        "longest_timeout",
        300.0,
        "Upper limit of any request's timeout (s).",
        minimum=0.1,
        maximum=3600.0,
        live=True,
    ),
    Parameter(
        "provider_timeout",
        10.0,
        "Maximum wait for one provider's candidates or search results (s).",
        minimum=0.1,
        maximum=600.0,
    ),
    Parameter(
        "request_timeout", 10.0, "Timeout of one HTTP request (s).", minimum=0.1, maximum=600.0
    ),
    Parameter(
        "retries",
        2,
        "Retries after status 408, 425, 429 or 5xx and after broken connections.",
        minimum=0,
        maximum=10,
    ),
    Parameter(
        "longest_wait",
        10.0,
        "Maximum delay of a request by a rate limit or a Retry-After header (s).",
        minimum=0.0,
        maximum=600.0,
    ),
    Parameter(
        "downloads_at_once", 4, "Number of concurrent image downloads.", minimum=1, maximum=32
    ),
    Parameter(
        "contact",
        "",
        "E-mail or web address of the operator, sent to servers in the user agent.",
        check=_is_header_text,
    ),
    Parameter(
        "min_confidence", 0.05, "Minimum confidence of a candidate.", minimum=0.0, maximum=1.0
    ),
    Parameter(
        "combine_labels",
        False,
        "Query all label providers and combine their answers into one ranking; false: one after "
        "the other, until there are enough candidates.",
    ),
    Parameter("names_checkpoint", "names", "Model of the provider names: a name or a folder."),
    Parameter(
        "names_vocabulary",
        "",
        "File of the names that the provider names may answer, one on a line; empty: the model's.",
    ),
    Parameter(
        "names_limit",
        0.06,
        "Confidence of its best name below which the provider names has no idea.",
        minimum=0.0,
        maximum=1.0,
    ),
    Parameter(
        "names_min_span",
        0.1,
        "Share of a name's vector that the model's classes must tell for it to be answered.",
        minimum=0.0,
        maximum=1.0,
    ),
    Parameter("max_image_mb", 8, "Maximum size of a file (MB).", minimum=1, maximum=100),
    Parameter(
        "max_megapixels", 40, "Maximum size of an image (megapixels).", minimum=1, maximum=100
    ),
    Parameter("min_side", 32, "Minimum side of an image (pixels).", minimum=8, maximum=1024),
    Parameter(
        "kept_side",
        640,
        "Maximum side of a stored image (pixels); larger ones are scaled down.",
        minimum=64,
        maximum=4096,
    ),
    Parameter(
        "filter_outliers", True, "Drop images that differ from the others and from the crop."
    ),
    Parameter(
        "outlier_limit",
        0.8,
        "Threshold of an outlier (robust standard deviations below the median).",
        minimum=0.1,
        maximum=100.0,
    ),
    Parameter(
        "allowed_private_hosts",
        [""],
        "Hosts, as host or host:port, that need not have a public address: a local mirror.",
    ),
    Parameter(
        "google_vision_url", google_vision.URL, "Address of the Vision API.", check=_is_address
    ),
    Parameter("openverse_url", openverse.URL, "Address of the Openverse API.", check=_is_address),
    Parameter("wikimedia_url", wikimedia.URL, "Address of a MediaWiki API.", check=_is_address),
    _per_minute("google_vision", 60.0),
    _per_minute("openverse", 15.0),
    _per_minute("wikimedia", 60.0),
)


def settings_from(param: Callable[[str], Any]) -> WebSettings:
    """Make the settings from the current parameter values."""
    services = ("google_vision", "openverse", "wikimedia")
    return WebSettings(
        label_providers=_names(param("label_providers")),
        image_providers=_names(param("image_providers")),
        library_folder=_path(param("library_folder")),
        image_folder=_path(param("image_folder")) or default_image_folder(),
        image_folder_bytes=param("image_folder_mb") * MEGA,
        min_free_bytes=param("min_free_mb") * MEGA,
        cache_folder=_path(param("cache_folder")) or default_cache_folder(),
        cache_bytes=param("cache_mb") * MEGA,
        cache_seconds=param("cache_days") * 86_400,
        filter_outliers=param("filter_outliers"),
        label_provider_seconds=param("provider_timeout"),
        min_confidence=param("min_confidence"),
        combine_labels=param("combine_labels"),
        names_checkpoint=_names_checkpoint(param),
        names_vocabulary=_path(param("names_vocabulary")),
        names_limit=param("names_limit"),
        names_min_span=param("names_min_span"),
        urls={name: param(f"{name}_url") for name in services},
        per_minute={name: param(f"{name}_per_minute") for name in services},
        fetch=_fetch_settings(param),
        collect=_collect_settings(param),
    )


def _names_checkpoint(param: Callable[[str], Any]) -> Path:
    """Looked for only if the provider is used: a robot may not have the model."""
    name = param("names_checkpoint")
    return find_checkpoint(name) if "names" in param("label_providers") else Path(name)


def _fetch_settings(param: Callable[[str], Any]) -> FetchSettings:
    contact = param("contact")
    return FetchSettings(
        user_agent=f"newfound/0.1 ({contact})" if contact else "newfound/0.1",
        request_seconds=param("request_timeout"),
        max_image_bytes=param("max_image_mb") * MEGA,
        private_hosts=_names(param("allowed_private_hosts")),
        retry=RetryPolicy(param("retries"), longest_wait=param("longest_wait")),
    )


def _collect_settings(param: Callable[[str], Any]) -> CollectSettings:
    limits = PictureLimits(
        max_bytes=param("max_image_mb") * MEGA,
        max_pixels=param("max_megapixels") * MEGA,
        min_side=param("min_side"),
        kept_side=param("kept_side"),
    )
    return CollectSettings(
        limits,
        provider_seconds=param("provider_timeout"),
        at_once=param("downloads_at_once"),
        outlier_limit=param("outlier_limit"),
    )


def _names(values: list[str]) -> tuple[str, ...]:
    return tuple(value.strip() for value in values if value.strip())


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None
