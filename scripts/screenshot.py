# SPDX-License-Identifier: Apache-2.0
"""A picture of a page of the console, by the system's Chromium.

python -m scripts.screenshot http://localhost:8420/#/inbox inbox.png --wait .card
"""

import argparse
import shutil
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Where the browser is; empty if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), "")


def main() -> int:
    parser = argparse.ArgumentParser("python -m scripts.screenshot", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("file", type=Path)
    parser.add_argument("--wait", default="", help="an element that must be there")
    parser.add_argument("--phone", action="store_true")
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    if not chromium():
        print("screenshot: no Chromium is installed", file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    size = (390, 844) if options.phone else (1280, 860)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if options.dark else "light",
        )
        page.goto(options.address)
        if options.wait:
            page.wait_for_selector(options.wait, timeout=60_000)
        page.wait_for_timeout(1500)  # pictures
        page.screenshot(path=options.file)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
