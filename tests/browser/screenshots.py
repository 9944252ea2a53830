"""
Take the pictures of the documentation: ``make screenshots``.

They show the seeded installation, whose clock stands still, so that a picture changes
with its page, and with how long ago Now has looked at the broker. Look at each before
you commit it.
"""

from __future__ import annotations

import argparse
import io
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from models.operation_state import OperationState
from tests.browser.looking import NARROW, WIDE, Looker, Watch
from tests.programs import find_program
from tests.seeded.scene import Scene
from tests.seeded.sites import Site, make_seeded_home, run_site
from web.preferences import ZONE_COOKIE

FOLDER = Path(__file__).parents[2] / "docs" / "images"

#: Beyond this, a picture is a burden to whoever opens the page that shows it.
LARGEST = 150_000

#: Pages have a handful of colours, and shades of these at the edges of letters.
_COLOURS = 96


@dataclass(frozen=True, slots=True)
class Picture:
    """
    A picture of a page.

    Args:
        name: Of the file, without its ending.

        path: Of the page; ``{failed}`` stands for the id of an operation that failed.
    """

    name: str
    path: str
    width: int = WIDE
    theme: str = "light"


PICTURES = (
    Picture("now", "/"),
    Picture("now-dark", "/", theme="dark"),
    Picture("now-phone", "/", width=NARROW),
    Picture("actions", "/actions"),
    Picture("action", "/actions/nightly-warehouse-load"),
    Picture("editor", "/actions/nightly-warehouse-load/edit"),
    Picture("operations", "/operations"),
    Picture("operation", "/operations/{failed}"),
    Picture("timeline", "/timeline"),
    Picture("calendar", "/calendar"),
    Picture("workers", "/workers"),
    Picture("data", "/apps/delta-energy"),
    Picture("mails", "/mails"),
    Picture("events", "/events"),
    Picture("settings", "/settings"),
)


def main() -> int:
    """Take the pictures; return 1 if something was wrong with a page."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.browser.screenshots",
        description=__doc__.split("\n\n", maxsplit=1)[0],
    )
    parser.add_argument("--into", type=Path, default=FOLDER)
    parser.add_argument("--only", action="append", help="name of a picture")
    parser.add_argument("--home", type=Path, default=Path("build/pictures"))
    options = parser.parse_args()
    chosen = [each for each in PICTURES if each.name in (options.only or [each.name])]
    options.into.mkdir(parents=True, exist_ok=True)
    options.home.mkdir(parents=True, exist_ok=True)
    home = make_seeded_home(options.home.absolute(), Scene())
    watch = Watch()
    with run_site(home) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_program("chromium-headless-shell"),
            args=["--no-sandbox"],
        )
        looker = Looker(browser, watch)
        for picture in chosen:
            context = looker.enter(site, width=picture.width, theme=picture.theme)
            # Or the first page of all would not know yet where it is read.
            context.add_cookies(
                [{"name": ZONE_COOKIE, "value": "Europe/London", "url": site.url}]
            )
            page = context.new_page()
            page.goto(site.url + picture.path.format(failed=find_failed(site)))
            size = _take(page, options.into / f"{picture.name}.png")
            print(f"{picture.name:12}{size / 1000:8.0f} KB")  # noqa: T201 - a program
            if size > LARGEST:
                watch.faults.append(f"{picture.name} has more than {LARGEST:,} bytes")
            page.close()
        looker.close()
        browser.close()
    for fault in watch.faults:
        print(fault, file=sys.stderr)  # noqa: T201
    return int(bool(watch.faults))


def find_failed(site: Site) -> str:
    """Return the id of the latest run of the nightly load, which failed."""
    return str(site.find_latest("nightly-warehouse-load", OperationState.FAILED))


def _take(page: Page, path: Path) -> int:
    """Write what the window shows; return the bytes that it takes."""
    taken = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
    # Without dithering, which would make noise of flat colours.
    few = taken.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    return path.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
