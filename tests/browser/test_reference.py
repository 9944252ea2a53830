"""The page of the HTTP API's document can be read by everybody."""

from __future__ import annotations

from tests.browser.looking import NARROW, WIDE, Looker, check_axe, check_width
from tests.seeded.sites import Site

#: Of the hundred routes, all of which are made by one template, and what is above them.
_SOME = "header, nav section:first-of-type, main > section:first-of-type"


def test_page_is_for_everybody(looker: Looker, site: Site):
    """
    Nothing is found by axe, in light and in dark, and nothing is cut off.
    """
    page = looker.open(site, "/docs", role=None, width=NARROW)
    check_width(page)
    check_axe(page, within=_SOME)
    page.set_viewport_size({"width": WIDE, "height": 800})
    page.emulate_media(color_scheme="dark")
    check_width(page)
    check_axe(page, within=_SOME)
