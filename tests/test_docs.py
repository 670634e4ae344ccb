# SPDX-License-Identifier: Apache-2.0
"""Links between our pages lead somewhere."""

import re

import pytest

from tests import ROOT

PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("src/*/README.md")]
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")  # without a scheme: into this repository


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_to_a_file_finds_it(page):
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
