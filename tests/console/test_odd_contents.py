# SPDX-License-Identifier: Apache-2.0
"""The page when there is nothing to show, and when names are as long as they may be."""

import pytest
from playwright.sync_api import expect

from newfound_console.node import Console
from newfound_runtime.testing import Harness

WAIT = 30_000  # ms; reached only when something is broken
LONGEST = "W" * 100

pytestmark = pytest.mark.slow

EMPTY = {
    "live": "has not found a robot",
    "inbox": "no part that looks for unknown things",
    "teach": "no part that can learn things",
    "knowledge": "no part that learns",
    "objects": "does not remember places",
    "light": "No part that follows the light",
}
START = {"objects": "object_memory"} | dict.fromkeys(
    ("inbox", "teach", "knowledge"), "open_world_detector"
)  # what the page says is to be started


@pytest.fixture(scope="module")
def alone():
    """A console in a domain without a robot."""
    ros = Harness()
    yield ros.started(Console, port=0).address
    ros.close()


@pytest.mark.parametrize("name", EMPTY)
def test_without_a_robot_each_page_says_what_is_missing(alone, browser, name):
    page = browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"{alone}#/{name}")
    expect(page.locator("main")).to_contain_text(EMPTY[name], timeout=WAIT)
    if name in START:
        expect(page.locator("main")).to_contain_text(f"have “{START[name]}” started")
    page.close()
    assert problems == []


def _width(page) -> int:
    return page.evaluate("document.documentElement.scrollWidth")


@pytest.mark.parametrize("width", [360, 1280])
def test_the_longest_names_fit_on_every_page(stack, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    stack.suggestions = {LONGEST: 0.9}
    stack.show("yellow")
    page.goto(f"{stack.address}#/inbox")
    expect(page.locator(".candidate").first).to_contain_text(LONGEST, timeout=WAIT)
    assert _width(page) <= width
    stack.detector.session.rename(stack.detector.session.in_use.knowledge.labels[0], LONGEST)
    try:
        page.goto(f"{stack.address}#/knowledge")
        page.locator(".classes").get_by_role("button", name=LONGEST).click(timeout=WAIT)
        expect(page.locator(".detail h2")).to_have_text(LONGEST, timeout=WAIT)
        expect(page.locator(".timeline")).to_contain_text(LONGEST, timeout=WAIT)
        assert _width(page) <= width
    finally:
        stack.detector.session.rename(LONGEST, "red")
        page.close()


def test_a_name_with_an_apostrophe_is_quoted_as_any_other(stack, browser):
    session = stack.detector.session
    session.rename("green", "baker's_yeast")
    page = browser.new_page()
    try:
        page.goto(f"{stack.address}#/knowledge")
        newest = page.locator(".timeline .now strong")
        expect(newest).to_have_text("Renamed “green” to “baker's yeast”", timeout=WAIT)
    finally:
        session.rename("baker's_yeast", "green")
        page.close()
