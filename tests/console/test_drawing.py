# SPDX-License-Identifier: Apache-2.0
"""A person draws around an area in a real browser, and a real segmenter learns it."""

import array
import threading

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from sensor_msgs.msg import Image

from newfound_console.node import Console
from newfound_core.testing import COLOURS, coloured_scene, tiny_segments
from newfound_nodes.segmenter.node import SegmenterNode
from newfound_runtime.testing import Harness, eventually, image

WAIT = 60_000  # ms; reached only when something is broken
YELLOW = {**COLOURS, "yellow": (230, 220, 40)}
ACROSS = 4  # label of yellow in a scene

pytestmark = pytest.mark.slow


class Room:
    """A camera that shows one scene until it is given another; a segmenter, and the page."""

    def __init__(self, folder) -> None:
        self.ros = Harness()
        self.scene = coloured_scene(YELLOW, 100)
        self._closing = threading.Event()
        publisher = self.ros.publisher(Image, "/room/image_raw")
        self.segmenter = self.ros.started(
            SegmenterNode,
            checkpoint=str(tiny_segments(folder / "tiny", skilled=True)),
            knowledge_base=str(folder / "knowledge"),
            image_topic="/room/image_raw",
            learning_iterations=40,
            learning_niceness=0,
            max_class_loss=1.0,
            max_accuracy_loss=1.0,
        )
        self.console = self.ros.started(Console, port=0)
        self._thread = threading.Thread(target=self._run, args=(publisher,), daemon=True)
        self._thread.start()

    def _run(self, publisher) -> None:
        number = 0
        while not self._closing.wait(0.1):
            number += 1
            rgb = self.scene[0]
            message = image(rgb.shape[1], rgb.shape[0], number)
            message.data = array.array("B", np.ascontiguousarray(rgb).tobytes())
            publisher.publish(message)

    @property
    def address(self) -> str:
        return self.console.address

    def show(self, seed: int) -> None:
        """Show another scene, until the console has seen it."""
        self.scene = coloured_scene(YELLOW, seed)
        session = self.console.pages.drawing("/segmenter")
        eventually(lambda: session.newest is not None and (session.newest == self.scene[0]).all())

    def corners(self) -> list[tuple[float, float]]:
        """Of the yellow rectangle, as shares of the picture."""
        rows, columns = np.nonzero(self.scene[1] == ACROSS)
        height, width = self.scene[1].shape
        left, right = columns.min() / width, (columns.max() + 1) / width
        top, bottom = rows.min() / height, (rows.max() + 1) / height
        return [(left, top), (right, top), (right, bottom), (left, bottom)]

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self.ros.close()


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    made = Room(tmp_path_factory.mktemp("drawing"))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def nothing_drawn(stack):
    stack.console.pages.drawing("/segmenter").clear()


def draw(tab, corners):
    canvas = tab.get_by_role("application")
    box = canvas.bounding_box()
    for x, y in corners:
        inset = lambda share, side: min(max(share * side, 1), side - 1)  # noqa: E731
        at = {"x": inset(x, box["width"]), "y": inset(y, box["height"])}
        canvas.click(position=at)
    canvas.press("Enter")


def test_an_area_is_drawn_learned_seen_and_undone(stack, tab):
    tab.get_by_role("link", name="Draw").click()
    expect(tab.locator(".areas li")).to_have_count(3, timeout=WAIT)
    expect(tab.locator("#learn-area")).to_be_disabled()
    for number in range(5):
        stack.show(100 + number)
        tab.locator("#take").click()
        expect(tab.locator("#keep")).to_have_text("Keep it: none in view")
        draw(tab, stack.corners())
        expect(tab.locator("#keep")).to_have_text("Keep it")
        tab.locator("#keep").click()
        expect(tab.locator(".thumb")).to_have_count(number + 1, timeout=WAIT)
    tab.reload()
    expect(tab.locator(".thumb polygon")).to_have_count(5, timeout=WAIT)
    tab.locator("#draw-name").fill("yellow")
    tab.locator("#learn-area").click()
    expect(tab.locator(".result")).to_contain_text("“yellow” is learned", timeout=3 * WAIT)
    expect(tab.locator(".areas li")).to_have_count(4, timeout=WAIT)
    expect(tab.locator(".thumb")).to_have_count(0, timeout=WAIT)
    assert stack.segmenter.session.in_use.segmenter.labels[-1] == "yellow"
    expect(tab.locator(".picture .frame").first).to_be_visible()
    tab.get_by_role("button", name="Undo").click()
    expect(tab.locator(".areas li")).to_have_count(3, timeout=WAIT)


def test_an_area_that_was_forgotten_comes_back_by_undo(stack, tab):
    tab.get_by_role("link", name="Draw").click()
    areas = tab.locator(".areas li")
    expect(areas).to_have_count(3, timeout=WAIT)
    tab.get_by_role("button", name="Forget red").click()
    tab.get_by_role("dialog").get_by_role("button", name="Forget it").click()
    expect(areas).to_have_count(2, timeout=WAIT)
    tab.locator(".toast").get_by_role("button", name="Undo").click()
    expect(areas).to_have_count(3, timeout=WAIT)


def test_an_outline_is_drawn_by_keys_and_points_are_taken_back(stack, tab):
    tab.get_by_role("link", name="Draw").click()
    stack.show(200)
    tab.locator("#take").click()
    canvas = tab.get_by_role("application")
    expect(canvas).to_be_focused()
    for key in ("Space", "ArrowRight", "ArrowRight", "Space", "ArrowDown", "Space"):
        tab.keyboard.press(key)
    expect(tab.locator(".outlines .point")).to_have_count(3)
    tab.keyboard.press("Enter")
    expect(canvas.locator(".closed")).to_have_count(1)
    tab.keyboard.press("Backspace")  # the outline is open again
    tab.locator("#back").click()
    expect(tab.locator(".outlines .point")).to_have_count(2)
    expect(tab.locator("#keep")).to_have_text("Keep it: none in view")
    tab.locator("#keep").click()
    expect(tab.locator("#learn-area")).to_be_disabled()
    tab.locator(".thumb").click()
    expect(tab.locator(".thumb")).to_have_count(0, timeout=WAIT)


def test_the_page_is_accessible_while_drawing(stack, tab):
    tab.get_by_role("link", name="Draw").click()
    stack.show(300)
    tab.locator("#take").click()
    expect(tab.locator("#keep")).to_be_visible()
    found = Axe().run(tab).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


def test_a_name_that_is_known_is_refused_and_the_pictures_stay(stack, tab):
    tab.get_by_role("link", name="Draw").click()
    for number in range(2):
        stack.show(100 + number)
        tab.locator("#take").click()
        draw(tab, stack.corners())
        tab.locator("#keep").click()
        expect(tab.locator(".thumb")).to_have_count(number + 1, timeout=WAIT)
    tab.locator("#draw-name").fill("Red")
    expect(tab.get_by_text("It knows “red” already.")).to_be_visible()
    tab.locator("#learn-area").click()
    expect(tab.locator(".toast.error")).to_be_visible(timeout=WAIT)
    expect(tab.locator(".thumb")).to_have_count(2)
    tab.locator("#clear").click()
    expect(tab.locator(".thumb")).to_have_count(0, timeout=WAIT)
