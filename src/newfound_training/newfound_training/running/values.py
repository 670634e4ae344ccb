# SPDX-License-Identifier: Apache-2.0
"""Values as people write them: YAML, with 1e-3 as a number."""

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """PyYAML follows YAML 1.1, to which 1e-3 is a text: only 1.0e-3 is a number there."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def read_values(text: str) -> Any:
    """What a YAML text holds: plain values only; a yaml.YAMLError if it is not YAML."""
    return yaml.load(text, Loader=_Loader)  # a SafeLoader: nothing is constructed
