# SPDX-License-Identifier: Apache-2.0
"""Links lead somewhere, and what the README files show in code blocks works.

A block is run as it stands. One that cannot be run here has a comment before it that says why:

    <!-- not run: needs a robot -->
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from newfound_runtime.container import GROUP
from tests import ROOT

READMES = [ROOT / "README.md", *sorted(ROOT.glob("src/*/README.md"))]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/*/README.md")]
LINK = re.compile(r"\]\(([^)\s:]+)\)")  # without a scheme: into this repository
BLOCK = re.compile(
    r"(?:<!--\s*not run:(?P<reason>.*?)-->\s*\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    page: Path
    line: int
    language: str
    code: str
    reason: str | None  # why it is not run

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            page,
            text[: found.start("language")].count("\n") + 1,
            found["language"],
            "\n".join(line[len(found["indent"]) :] for line in found["code"].splitlines()),
            found["reason"],
        )
        for found in BLOCK.finditer(text)
    ]


ALL = [block for page in READMES for block in blocks(page)]


def of(*languages: str) -> list[Block]:
    return [b for b in ALL if b.language in languages and b.reason is None]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_finds_its_file_and_heading(page):
    broken = []
    for link in LINK.findall(page.read_text()):
        file, _, heading = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (heading and heading not in headings(target)):
            broken.append(link)
    assert broken == []


def headings(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in found}


def test_blocks_are_found_with_their_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "text\n\n<!-- not run: needs a robot -->\n```bash\nmake fly\n```\n\n"
        "- a list\n  ```python\n  x = 1\n  ```\n"
    )
    found = [(b.language, b.code, b.reason) for b in blocks(page)]
    assert found == [("bash", "make fly", " needs a robot "), ("python", "x = 1", None)]


@pytest.mark.parametrize("block", [b for b in ALL if b.reason is not None], ids=str)
def test_a_block_that_is_not_run_says_why(block):
    assert len(block.reason.split()) >= 2, "a reason in a few words"


@pytest.mark.parametrize("block", ALL, ids=str)
def test_a_block_is_in_a_language_that_is_checked(block):
    known = ("python", "bash", "yaml", "text", "")
    assert block.language in known, f"{block}: none of {known}"


@pytest.mark.slow
@pytest.mark.parametrize("block", of("python", "bash"), ids=str)
def test_code_in_a_readme_runs(block, tmp_path):
    """In a process of its own, in an empty folder."""
    program = [sys.executable, "-c"] if block.language == "python" else ["bash", "-euc"]
    done = subprocess.run(
        [*program, block.code],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


def test_every_make_target_in_a_readme_exists():
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for block in ALL
        for target in re.findall(r"^make ([a-z]+)", block.code, re.MULTILINE)
    }
    assert named <= known
    assert {"demo", "test"} <= named


@pytest.mark.parametrize("block", of("yaml"), ids=str)
def test_parameters_in_a_readme_exist(block):
    """Nodes and parameters of a YAML block are ones that the nodes declare."""
    nodes = {entry.name: entry.load() for entry in entry_points(group=GROUP)}
    content = yaml.safe_load(block.code)
    assert isinstance(content, dict)
    listed = content.get("/container", {}).get("ros__parameters", {}).get("nodes", [])
    kinds = {
        (name or kind).strip("/"): kind for kind, _, name in (e.partition(":") for e in listed)
    }
    for pattern, values in content.items():
        if pattern == "/container":
            continue
        name = pattern.removeprefix("/**/").strip("/")
        node = nodes[kinds.get(name, name.rpartition("/")[2])]
        declared = {p.name: p for p in (*node.COMMON_PARAMETERS, *node.PARAMETERS)}
        for parameter, value in values["ros__parameters"].items():
            assert isinstance(value, type(declared[parameter].default)), (pattern, parameter)
            assert declared[parameter].problem(value) is None
