# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, on real nodes: everything that a person does, by clicks and keys."""

import time
from functools import partial

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from newfound_console.node import Console
from newfound_console.other_actions import MAX_OBJECTS
from newfound_core.detection.unknown_objects import UnknownState
from newfound_core.learning import learn
from newfound_core.learning.job import JobState
from newfound_core.object_memory import Sighting
from newfound_core.open_world.view_coverage import distinct_views
from newfound_nodes.open_world import stored_views
from newfound_runtime.testing import eventually

WAIT = 30_000  # ms; reached only when something is broken
PAGES = ("Live", "Inbox", "Teach", "Knowledge", "Objects", "Light")

pytestmark = pytest.mark.slow


def go(tab, page):
    tab.get_by_role("link", name=page).click()


def labels(stack):
    return stack.detector.session.in_use.knowledge.labels


def show_until_asked(stack, tab, colour):
    """Show a colour that nobody knows until there is a card more."""
    before = tab.locator(".card").count()
    stack.show(colour)
    expect(tab.locator(".card")).to_have_count(before + 1, timeout=WAIT)


@pytest.fixture
def clean(stack):
    """Nothing unknown is left over, and what is known is what was shipped."""
    stack.show("red")
    stack.suggestions = {"lemon": 0.8, "duster": 0.1}
    session = stack.detector.session
    eventually(lambda: not session.jobs.busy, "no job")
    for entry in session.unknowns():
        session._unknowns.mark(entry.id, UnknownState.EXPIRED)
    eventually(lambda: not stack.curator.proposals.open(), "no question")
    for label in set(labels(stack)) - {"red", "green", "blue"}:
        session.forget(label)


def test_an_unknown_thing_is_named_learned_recognised_and_undone(stack, clean, tab):
    expect(tab.locator("#link")).to_have_text("Connected", timeout=WAIT)
    things = tab.locator("#in-view li")
    expect(things).to_contain_text("red", timeout=WAIT)
    stack.show("yellow")
    expect(things).to_contain_text("Unknown thing", timeout=WAIT)
    go(tab, "Inbox")
    card = tab.locator(".card")
    expect(card.locator("h2")).to_have_text("Is this a lemon?", timeout=WAIT)
    expect(card.locator(".candidate")).to_have_count(2)
    expect(card.locator(".candidate").first).to_contain_text("80 % · test")
    card.focus()
    tab.keyboard.press("1")
    expect(tab.locator(".finished")).to_contain_text("Learned: lemon", timeout=WAIT)
    go(tab, "Live")
    expect(things).to_contain_text("lemon", timeout=WAIT)
    go(tab, "Inbox")
    tab.locator(".finished .undo").first.click()
    go(tab, "Live")
    expect(things).to_contain_text("Unknown thing", timeout=WAIT)
    assert "lemon" not in labels(stack)


def test_other_names_are_looked_for_when_none_is_right(stack, clean, tab):
    go(tab, "Inbox")
    show_until_asked(stack, tab, "petrol")
    expect(tab.locator(".candidate")).to_have_count(2, timeout=WAIT)
    stack.suggestions = {"lamp": 0.4}
    tab.locator(".card").focus()
    tab.keyboard.press("n")
    expect(tab.locator(".candidate")).to_have_count(1, timeout=WAIT)
    expect(tab.locator(".card h2")).to_have_text("Is this a lamp?")
    stack.suggestions = {}
    tab.get_by_text("None of these").click()
    expect(tab.locator(".candidate")).to_have_count(0, timeout=WAIT)
    expect(tab.get_by_text("None of these")).to_be_hidden()
    assert stack.curator.proposals.open()[0].refused == ("lemon", "duster", "lamp")


def test_the_suggestion_of_a_thing_that_is_known_adds_its_views(stack, clean, tab):
    stack.suggestions = {"green": 0.9, "duster": 0.1}
    session = stack.detector.session
    version, before = session.version(), len(session.remembered().samples("green"))
    go(tab, "Inbox")
    show_until_asked(stack, tab, "mint")
    tab.locator(".card").get_by_role("button", name="green").click()
    expect(tab.locator(".finished")).to_contain_text("Learned: green", timeout=WAIT)
    assert len(session.remembered().samples("green")) > before
    session.restore(version)


def test_a_name_that_is_typed_as_the_page_shows_it_is_that_of_the_known_class(stack, clean, tab):
    version = stack.detector.session.version()
    stack.detector.session.rename("green", "leaf_green")
    try:
        go(tab, "Inbox")
        show_until_asked(stack, tab, "mint")
        tab.get_by_label("Name of this thing").fill("Leaf green")
        tab.get_by_role("button", name="Save").click()
        expect(tab.locator(".finished")).to_contain_text("Learned: leaf green", timeout=WAIT)
        assert sorted(labels(stack)) == ["blue", "leaf_green", "red"]
    finally:
        stack.detector.session.restore(version)


def test_a_suggestion_that_is_taken_is_told_once(stack, clean, tab):
    go(tab, "Inbox")
    show_until_asked(stack, tab, "navy")
    tab.locator(".card").get_by_role("button", name="duster").click()
    expect(tab.locator(".finished")).to_contain_text("Learned: duster", timeout=WAIT)
    assert tab.locator(".toast", has_text="Learning “duster”").count() == 1


def test_undo_of_a_lesson_is_offered_while_it_is_the_last_change(stack, clean, tab):
    go(tab, "Inbox")
    show_until_asked(stack, tab, "yellow")
    tab.locator(".card").get_by_role("button", name="lemon").click()
    undo = tab.locator(".finished .undo")
    expect(undo).to_have_count(1, timeout=WAIT)
    session = stack.detector.session
    session.rename("blue", "azure")  # a later change, which is not what the button speaks of
    try:
        expect(undo).to_have_count(0, timeout=WAIT)
    finally:
        session.rename("azure", "blue")


def test_what_was_undone_is_not_called_learned_any_more(stack, clean, tab):
    go(tab, "Inbox")
    show_until_asked(stack, tab, "yellow")
    tab.locator(".card").get_by_role("button", name="lemon").click()
    tab.locator(".finished .undo").click(timeout=WAIT)
    expect(tab.locator(".finished")).to_contain_text("Not known any more: lemon", timeout=WAIT)
    expect(tab.locator(".finished .undo")).to_have_count(0)


def test_when_some_of_several_things_fail_it_is_said_which_and_why(stack, clean, tab):
    go(tab, "Inbox")
    for colour in ("mint", "navy"):
        show_until_asked(stack, tab, colour)
    answer = {"done": 1, "failed": {"u1": "it was decided already"}}
    tab.route("**/api/dismiss", lambda route: route.fulfill(json=answer))
    for number in range(2):
        tab.locator(".card").nth(number).get_by_label("Select this thing").check()
    tab.locator(".bulk").get_by_role("button", name="Not interesting").click()
    expect(tab.locator(".toast.error")).to_contain_text("1 of 2", timeout=WAIT)
    expect(tab.locator(".toast.error")).to_contain_text("it was decided already")


def test_two_cards_are_merged_and_several_are_named_at_once(stack, clean, tab):
    go(tab, "Inbox")
    for colour in ("mint", "magenta", "navy"):
        show_until_asked(stack, tab, colour)
    cards = tab.locator(".card")
    cards.nth(0).get_by_label("Select this thing").check()
    cards.nth(1).get_by_label("Select this thing").check()
    tab.get_by_role("button", name="Same thing: merge").click()
    expect(cards).to_have_count(2, timeout=WAIT)
    for number in range(2):
        cards.nth(number).get_by_label("Select this thing").check()
    tab.get_by_label("Name for all selected").fill("gloss paint")
    tab.get_by_role("button", name="Same thing: name them").click()
    expect(tab.locator(".finished")).to_contain_text("Learned: gloss paint", timeout=WAIT)
    assert labels(stack).count("gloss paint") == 1


def test_a_thing_is_put_aside_by_a_key_and_not_asked_about_again(stack, clean, tab):
    go(tab, "Inbox")
    show_until_asked(stack, tab, "maroon")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("d")
    expect(tab.locator(".card")).to_have_count(0, timeout=WAIT)
    expect(tab.locator(".finished")).to_contain_text("Put aside")


def test_a_label_with_markup_is_a_text_everywhere(stack, clean, tab):
    evil = "<img src=x onerror=alert(1)>"
    stack.suggestions = {evil: 0.9}
    go(tab, "Inbox")
    show_until_asked(stack, tab, "petrol")
    card = tab.locator(".card")
    expect(card.locator("h2")).to_have_text(f"Is this a {evil}?", timeout=WAIT)
    card.get_by_label("Name of this thing").fill("<b>tin</b>")
    card.get_by_role("button", name="Save").click()
    # A label may not look like a path: the reason is shown, and the question stays.
    expect(tab.locator(".toast.error")).to_be_visible(timeout=WAIT)
    card.get_by_label("Name of this thing").fill("<b>tin")
    card.get_by_role("button", name="Save").click()
    expect(tab.locator(".finished")).to_contain_text("Learned: <b>tin", timeout=WAIT)
    go(tab, "Knowledge")
    expect(tab.locator(".classes")).to_contain_text("<b>tin", timeout=WAIT)
    assert tab.locator("main b, main img[src=x]").count() == 0


@pytest.fixture
def looking(stack, clean, tab, monkeypatch):
    """Begin to teach a thing of a colour."""
    # The tiny network finds everything much alike.
    monkeypatch.setattr(stored_views, "distinct_views", partial(distinct_views, same=0.9999))

    def begin(colour):
        go(tab, "Teach")
        expect(tab.locator(".picture.on")).to_be_visible(timeout=WAIT)
        stack.show(colour)
        tab.get_by_role("button", name="Start looking").click()
        expect(tab.locator(".strip img")).not_to_have_count(0, timeout=WAIT)
        stack.camera.turning = True

    return begin


def test_a_thing_is_taught_until_it_is_enough_and_tried_at_once(stack, tab, looking):
    looking("yellow")
    expect(tab.locator(".bar.enough")).to_be_visible(timeout=WAIT)
    stack.camera.turning = False
    tab.get_by_label("What is it called?").fill("canary")
    tab.get_by_role("button", name="Learn it").click()
    expect(tab.locator(".result")).to_contain_text("“canary” is learned", timeout=WAIT)
    expect(tab.locator(".advice")).to_contain_text("called “canary”", timeout=WAIT)
    expect(tab.locator(".strip img")).to_have_count(0, timeout=WAIT)


def test_a_lesson_that_is_rejected_keeps_its_views(stack, tab, looking, monkeypatch):
    looking("red")
    expect(tab.locator(".strip img")).not_to_have_count(1, timeout=WAIT)
    stack.camera.turning = False
    verdict = JobState.REJECTED, "forgot_too_much", "it is too much like red"
    monkeypatch.setattr(learn, "validate", lambda *_: verdict)
    tab.get_by_label("What is it called?").fill("blood")
    tab.get_by_role("button", name="Learn it").click()
    expect(tab.locator(".result")).to_contain_text(
        "“blood” was not learned: it is too much like red. Its views", timeout=WAIT
    )
    assert tab.locator(".strip img").count() >= 2
    expect(tab.get_by_role("button", name="Learn it")).to_be_enabled()
    tab.get_by_role("button", name="Another thing").click()
    expect(tab.locator(".strip img")).to_have_count(0, timeout=WAIT)


def test_knowledge_is_tested_renamed_cleaned_rehearsed_and_forgotten(stack, clean, tab):
    go(tab, "Inbox")
    show_until_asked(stack, tab, "yellow")
    tab.locator(".card").get_by_role("button", name="lemon").click()
    expect(tab.locator(".finished")).to_contain_text("Learned: lemon", timeout=WAIT)
    go(tab, "Knowledge")
    tab.locator(".classes").get_by_role("button", name="lemon").click()
    expect(tab.locator(".example")).not_to_have_count(0, timeout=WAIT)
    pictures = tab.locator(".example").count()
    tab.get_by_role("button", name="Rename").click()
    tab.get_by_role("dialog").get_by_role("textbox").fill("citron")
    tab.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(tab.locator(".detail h2")).to_have_text("citron", timeout=WAIT)
    expect(tab.locator(".example")).to_have_count(pictures, timeout=WAIT)
    tab.locator(".example").first.click()
    tab.get_by_role("button", name="Remove 1 and learn again").click()
    eventually(
        lambda: len(stack.detector.session.remembered().samples("citron")) == pictures - 1,
        "learned without it",
    )
    expect(tab.locator(".timeline .now")).to_contain_text("Learned “citron”", timeout=WAIT)
    tab.get_by_role("button", name="Test its memory").click()
    expect(tab.locator(".classes")).to_contain_text("right", timeout=WAIT)
    tab.get_by_role("button", name="What would change?").last.click()
    expect(tab.locator(".rehearsal table")).to_contain_text("citron", timeout=WAIT)
    tab.locator(".classes").get_by_role("button", name="citron").click()
    tab.get_by_role("button", name="Forget").click()
    tab.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(tab.locator(".classes")).not_to_contain_text("citron", timeout=WAIT)
    tab.get_by_role("button", name="Undo the last change").click()
    expect(tab.locator(".classes")).to_contain_text("citron", timeout=WAIT)


def test_a_thing_is_saved_to_a_file_forgotten_and_taken_from_it_again(stack, clean, tab, tmp_path):
    stack.ros.set("/open_world_detector", signed_packages_only=False)
    go(tab, "Knowledge")
    tab.locator(".classes").get_by_role("button", name="red").click()
    with tab.expect_download() as saved:
        tab.get_by_role("button", name="Save to a file").click()
    assert saved.value.suggested_filename == "red.nfp"
    saved.value.save_as(tmp_path / "red.nfp")
    tab.get_by_role("button", name="Forget").click()
    tab.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(tab.locator(".classes")).not_to_contain_text("red", timeout=WAIT)
    tab.locator("#package").set_input_files(tmp_path / "red.nfp")
    expect(tab.locator(".classes")).to_contain_text("red", timeout=WAIT)
    (tmp_path / "junk.nfp").write_bytes(b"junk")
    tab.locator("#package").set_input_files(tmp_path / "junk.nfp")
    expect(tab.locator("body")).to_contain_text("no zip file", timeout=WAIT)


def test_learning_is_stopped_on_its_card(stack, clean, tab):
    go(tab, "Inbox")
    show_until_asked(stack, tab, "navy")
    with stack.slow_learning():
        tab.locator(".card").get_by_role("button", name="lemon").click()
        tab.locator(".card").get_by_role("button", name="Stop learning").click(timeout=WAIT)
        expect(tab.locator(".card .problem")).to_contain_text("not learned", timeout=WAIT)
    assert "lemon" not in labels(stack)


def test_light_is_held_and_followed_again(stack, clean, tab):
    go(tab, "Light")
    part = tab.locator(".lights section")
    expect(part.locator(".state")).to_have_text("Follows the light", timeout=WAIT)
    part.get_by_role("button", name="Hold as it is").click()
    expect(part.locator(".state")).to_have_text("Held", timeout=WAIT)
    part.get_by_role("button", name="Follow again").click()
    expect(part.locator(".state")).to_have_text("Follows the light", timeout=WAIT)


def test_things_are_found_on_the_map(stack, clean, tab):
    go(tab, "Objects")
    expect(tab.locator(".objects li")).to_have_count(2, timeout=WAIT)
    tab.get_by_label("Search for a thing").fill("mug")
    expect(tab.locator(".objects li")).to_have_count(1)
    expect(tab.locator(".map .name")).to_have_text("mug")
    tab.locator(".thing").click()
    tab.locator(".objects").get_by_role("button", name="Forget").click()
    tab.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(tab.locator(".objects li")).to_have_count(0, timeout=WAIT)


def test_things_far_from_the_start_of_the_map_are_not_drawn_on_one_spot(stack, clean, tab):
    memory, place = stack.memory.memory, ((0.0, 0.0, 0.0, 1.0), (0.1, 0.1, 0.1), 0.01)
    now = time.time_ns()
    memory.see([Sighting("hall", (30.0 + x, 40.0, 0.8), *place, now, "jar") for x in (0, 0.5)])
    try:
        go(tab, "Objects")
        tab.get_by_label("Map", exact=True).select_option("hall", timeout=WAIT)
        dots = tab.locator(".map .known .size")
        expect(dots).to_have_count(2, timeout=WAIT)
        one, other = dots.nth(0).bounding_box(), dots.nth(1).bounding_box()
        assert abs(one["y"] - other["y"]) > 100
        assert tab.locator(".map .origin").count() == 0
    finally:
        for each in memory.latest("hall", 0.0, 10):
            memory.forget(each.id)


def test_a_thing_that_was_seen_long_ago_is_found_on_the_map_too(stack, clean, tab):
    memory, place = stack.memory.memory, ((0.0, 0.0, 0.0, 1.0), (0.1, 0.1, 0.1), 0.01)
    long_ago = time.time_ns() - 10**15
    memory.see([Sighting("attic", (0.0, 0.0, 0.8), *place, long_ago, "old_lamp")])
    newer = [((n % 20) * 0.3, (n // 20) * 0.3, 0.0) for n in range(MAX_OBJECTS)]
    memory.see([Sighting("attic", at, *place, time.time_ns(), "brick") for at in newer])
    try:
        go(tab, "Objects")
        expect(tab.locator(".objects li")).to_have_count(MAX_OBJECTS, timeout=WAIT)
        tab.get_by_label("Search for a thing").fill("Old lamp")
        expect(tab.locator(".objects li")).to_have_count(1, timeout=WAIT)
        expect(tab.locator(".objects li strong")).to_have_text("old lamp")
    finally:
        for each in memory.latest("attic", 0.0, 1000):
            memory.forget(each.id)


def test_an_old_picture_is_not_shown_as_if_it_were_live(stack, clean, tab):
    waiting = tab.get_by_text("Waiting for the camera")
    expect(tab.locator(".picture.on")).to_be_visible(timeout=WAIT)
    expect(waiting).to_be_hidden()
    stack.camera.paused = True
    try:
        expect(waiting).to_be_visible(timeout=WAIT)
        expect(tab.locator(".boxes g, #in-view li")).to_have_count(0)
        expect(tab.get_by_text("Nothing comes from the camera")).to_be_visible()
    finally:
        stack.camera.paused = False
    expect(waiting).to_be_hidden(timeout=WAIT)
    expect(tab.locator(".boxes g")).not_to_have_count(0, timeout=WAIT)


def test_a_part_that_stops_is_shown_and_the_page_comes_back_with_it(stack, clean, tab):
    parts = tab.locator(".health")
    expect(parts.locator("li", has_text="Asking you")).to_contain_text("Working", timeout=WAIT)
    stack.ros.change("/curator", "deactivate")
    expect(parts.locator("li", has_text="Asking you")).to_contain_text(
        "Look at this", timeout=WAIT
    )
    stack.ros.change("/curator", "activate")
    expect(parts.locator("li", has_text="Asking you")).to_contain_text("Working", timeout=WAIT)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_problem_for_people_who_cannot_see_or_use_a_mouse(
    stack, clean, browser, scheme
):
    page = browser.new_page(color_scheme=scheme, viewport={"width": 1280, "height": 860})
    page.goto(stack.address)
    stack.show("mint")
    found = []
    for name in PAGES:
        go(page, name)
        page.wait_for_timeout(400)
        for problem in Axe().run(page).response["violations"]:
            if problem["impact"] in ("serious", "critical"):
                found.append((name, problem["id"], problem["nodes"][0]["html"][:200]))
    page.close()
    assert found == []


def test_on_a_phone_everything_fits_and_a_thing_is_named_by_touch(stack, clean, browser):
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(stack.address)
    for name in PAGES:
        page.get_by_role("link", name=name).tap()
        page.wait_for_timeout(150)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"{name} is {width} pixels wide"
    page.get_by_role("link", name="Inbox").tap()
    stack.show("magenta")
    page.locator(".card .candidate").first.tap(timeout=WAIT)
    expect(page.locator(".finished")).to_contain_text("Learned: lemon", timeout=WAIT)
    context.close()


def test_on_a_phone_what_was_tapped_is_in_view_and_a_page_begins_at_its_top(stack, clean, browser):
    context = browser.new_context(
        viewport={"width": 360, "height": 400}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(stack.address)
    page.get_by_role("link", name="Knowledge").tap()
    page.locator(".classes").get_by_role("button", name="red").tap(timeout=WAIT)
    expect(page.locator(".detail h2")).to_be_in_viewport(timeout=WAIT)
    expect(page.locator(".example")).not_to_have_count(0, timeout=WAIT)
    assert page.evaluate("scrollY") > 0
    page.get_by_role("link", name="Teach").tap()
    expect(page.locator("h1")).to_be_in_viewport(timeout=WAIT)
    assert page.evaluate("scrollY") == 0
    context.close()


def test_whoever_comes_from_elsewhere_is_asked_for_the_token_once(stack, browser):
    file = stack.folder / "token"
    others = stack.ros.started(Console, "others", port=0, host="0.0.0.0", token_file=str(file))
    token = file.read_text().strip()
    context = browser.new_context()
    page = context.new_page()
    page.goto(others.address)
    page.get_by_label("Token").fill("guess")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_have_text("that is not the token", timeout=WAIT)
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#link")).to_have_text("Connected", timeout=WAIT)
    page.reload()  # the cookie is enough
    expect(page.locator("#link")).to_have_text("Connected", timeout=WAIT)
    context.close()
    by_address = browser.new_page()
    by_address.goto(f"{others.address}#token={token}")
    expect(by_address.locator("#link")).to_have_text("Connected", timeout=WAIT)
    assert token not in by_address.url
    by_address.close()
    stack.ros.change("/others", "shutdown")


def test_a_page_that_is_locked_out_asks_for_the_new_token(stack, browser):
    file = stack.folder / "key"
    locked = stack.ros.started(Console, "locked", port=0, host="0.0.0.0", token_file=str(file))
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{locked.address}#token={file.read_text().strip()}")
    expect(page.locator("#link")).to_have_text("Connected", timeout=WAIT)
    port = locked._server.port
    for transition in ("deactivate", "cleanup"):
        assert stack.ros.change("/locked", transition)
    file.unlink()
    stack.ros.set("/locked", port=port)
    for transition in ("configure", "activate"):
        assert stack.ros.change("/locked", transition)
    page.get_by_label("Token").fill(file.read_text().strip(), timeout=WAIT)
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#link")).to_have_text("Connected", timeout=WAIT)
    context.close()
    stack.ros.change("/locked", "shutdown")


def test_the_page_comes_back_when_the_server_was_restarted(stack, clean, browser):
    """Last: the server gets another port unless it is given one."""
    page = browser.new_page()
    page.goto(stack.address)
    expect(page.locator("#link")).to_have_text("Connected", timeout=WAIT)
    port = stack.console._server.port
    assert stack.ros.change("/console", "deactivate")
    expect(page.locator("#link")).to_contain_text("No connection", timeout=WAIT)
    assert stack.ros.change("/console", "cleanup")
    stack.ros.set("/console", port=port)
    assert stack.ros.change("/console", "configure")
    assert stack.ros.change("/console", "activate")
    expect(page.locator("#link")).to_have_text("Connected", timeout=WAIT)
    expect(page.locator("#in-view")).to_contain_text("red", timeout=WAIT)
    page.close()
