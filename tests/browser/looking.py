"""Look at a page as a person does, in Chromium, and notice what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
)

from models.role import Role
from serving.signing_in import name_cookie
from tests.seeded.sites import Site

#: As widths of the window: a laptop, and a phone.
WIDE, NARROW = 1280, 390

#: Of the wide window at 400 %, in which WCAG wants nothing to scroll sideways.
LEAST = 320

#: Far beyond what any page takes, also while others use the machine; in milliseconds.
PATIENCE_MS = 60_000

#: Browsers in which no script runs.
_SCRIPTLESS: WeakSet[BrowserContext] = WeakSet()

#: Beyond this, a page is not what was promised.
LARGEST_PAGE = 200_000


@dataclass
class Watch:
    """
    What went wrong in a browser, of which nobody would hear.

    Args:
        expected: Statuses of answers that a test asks for, such as 422 of a form.

        provoked: Words of complaints that a test asks for. They may come at any time,
            also while the page closes.
    """

    expected: set[int] = field(default_factory=set)
    provoked: tuple[str, ...] = ()
    faults: list[str] = field(default_factory=list)

    def follow(self, context: BrowserContext) -> None:
        """Notice errors of scripts, refusals of the policy, and answers that fail."""
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self._note(f"script: {error.error}"))
        context.on("requestfailed", self._on_failed)
        context.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        # Chromium tells each answer that fails here, too; `_on_response` judges them.
        if not message.text.startswith("Failed to load resource: the server responded"):
            self._note(f"console: {message.text}")

    def _on_failed(self, request: Request) -> None:
        # What is still read when one leaves a page ends so, the page itself as well; a
        # server that breaks off is told in other words, and by `goto`.
        if request.failure != "net::ERR_ABORTED":
            self._note(f"{request.failure}: {request.method} {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self._note(f"{response.status}: {response.url}")

    def _note(self, fault: str) -> None:
        if not any(words in fault for words in self.provoked):
            self.faults.append(fault)


@dataclass
class Looker:
    """Opens pages; a context for each way to look, and a page for each call."""

    browser: Browser
    watch: Watch
    _contexts: dict[tuple[Any, ...], BrowserContext] = field(default_factory=dict)

    def open(self, site: Site, path: str, **how: Any) -> Page:
        """Return the page at *path*, loaded, in a window as of `enter`."""
        page = self.enter(site, **how).new_page()
        page.goto(f"{site.url}{path}")
        return page

    def follow(self, site: Site, path: str) -> Page:
        """Return the page at *path*, which is told from now on of what happens."""
        page = self.enter(site).new_page()
        with page.expect_response(lambda each: "/api/v1/stream" in each.url):
            page.goto(f"{site.url}{path}")
        return page

    def enter(
        self,
        site: Site,
        *,
        width: int = WIDE,
        theme: str = "light",
        script: bool = True,
        bare: bool = False,
        role: Role | None = Role.ADMIN,
        app: str | None = None,
    ) -> BrowserContext:
        """
        Return a browser of somebody who is signed in; the same for the same.

        Args:
            script: Whether scripts run; where none does, axe does not either.

            bare: Pages as the server sent them: without our script, but axe runs.

            role: Of whoever is signed in. None: nobody is.

            app: The only one that they see. None: all.
        """
        key = (site.url, width, theme, script, bare, role, app)
        if key not in self._contexts:
            context = self.browser.new_context(
                viewport={"width": width, "height": 844 if width < 760 else 800},
                color_scheme="dark" if theme == "dark" else "light",
                reduced_motion="reduce",
                java_script_enabled=script,
                locale="en-GB",
                timezone_id="Europe/London",
            )
            context.set_default_timeout(PATIENCE_MS)
            self.watch.follow(context)
            if not script:
                _SCRIPTLESS.add(context)
            if bare:
                context.route(
                    "**/static/script.js*",
                    lambda route: route.fulfill(
                        body="", content_type="text/javascript"
                    ),
                )
            if role is not None:
                cookie = site.sign_in(role, app)
                name = name_cookie(site.settings)
                context.add_cookies([{"name": name, "value": cookie, "url": site.url}])
            self._contexts[key] = context
        return self._contexts[key]

    def leave(self) -> None:
        """Close every page, and keep the windows."""
        for context in self._contexts.values():
            for page in context.pages:
                page.close()

    def close(self) -> None:
        """Close every window."""
        for context in self._contexts.values():
            context.close()
        self._contexts.clear()


@contextmanager
def leaving(page: Page) -> Iterator[None]:
    """
    Wait, at the end of the block, until what it leads to has loaded.

    A click is over before the page that it leads to has begun: whoever reads at once
    reads the former one, and whoever presses a key before the script runs is not heard.
    """
    with page.expect_event("load"):
        yield


def check_axe(page: Page, *, only: str | None = None) -> None:
    """
    Demand that axe finds nothing: WCAG 2.2 AA, and what is good practice.

    Of all rules or *only* one.
    """
    # Its timers would never go off, and nobody would ever hear from it.
    assert page.context not in _SCRIPTLESS, "axe is a script itself: open it bare"
    # What is in a frame is somebody's mail, in which no script runs.
    options: dict[str, Any] = {"resultTypes": ["violations"], "iframes": False}
    if only is not None:
        options["runOnly"] = {"type": "rule", "values": [only]}
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_AXE_SCRIPT)
    page.evaluate(_MARK_REPEATED)
    answer = page.evaluate(_RUN_AXE, options)
    wrong = answer["violations"]
    assert not wrong, "\n".join(_tell(each) for each in wrong)


_AXE_SCRIPT = Axe().axe_script

#: Marks what looks as something before it does, in something that looks the same: the
#: rows of a list mostly differ in what they say. The rules of colors take axe longer
#: than all others, and find nothing there that they do not find at the first.
_MARK_REPEATED = """
() => {
  const looks = new Set();
  const says = (node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "";
  const look = (each) => {
    const seen = getComputedStyle(each);
    return [
      each.tagName, each.getAttribute("class"), each.getAttribute("style"),
      each.disabled, [...each.childNodes].some(says),
      seen.color, seen.backgroundColor, seen.backgroundImage, seen.opacity,
      seen.fontSize, seen.fontWeight, seen.visibility, each.checkVisibility(),
    ].join();
  };
  const mark = (each, around) => {
    const whole = `${around}/${look(each)}`;
    each.toggleAttribute("data-repeated", looks.has(whole));
    looks.add(whole);
    for (const child of each.children) mark(child, whole);
  };
  mark(document.body);
}
"""

_RUN_AXE = """
(options) => {
  axe.configure({ rules: [
    { id: "color-contrast", selector: ":not([data-repeated])" },
    { id: "link-in-text-block",
      selector: ":is(a[href], [role=link]):not([data-repeated])" },
  ] });
  return axe.run(document, options);
}
"""


def _tell(violation: dict[str, Any]) -> str:
    nodes = "\n".join(
        f"    {each['html'][:200]}\n        {each['failureSummary'][:300]}"
        for each in violation["nodes"][:5]
    )
    return f"{violation['id']}: {violation['help']}\n{nodes}"


#: Elements that reach beyond the window, unless a box around them scrolls or hides.
_TOO_WIDE = """
() => {
  const room = document.documentElement.clientWidth;
  const reach = (each) => each.getBoundingClientRect().right;
  const held = (each) => {
    let box = each.parentElement;
    for (; box && box !== document.body; box = box.parentElement) {
      const overflow = getComputedStyle(box).overflowX;
      if (overflow !== "visible" && reach(box) <= room + 1) return true;
    }
    return false;
  };
  return [...document.body.querySelectorAll("*")]
    .filter((each) => each.checkVisibility() && reach(each) > room + 1)
    .filter((each) => each.getBoundingClientRect().width > 1 && !held(each))
    .map((each) => each.outerHTML.slice(0, 200));
}
"""


def check_width(page: Page) -> None:
    """Demand that the page does not scroll sideways, and nothing leaves the window."""
    scrolls = page.evaluate(
        "() => document.documentElement.scrollWidth"
        " - document.documentElement.clientWidth"
    )
    wide = page.evaluate(_TOO_WIDE)
    assert not wide, f"beyond {page.viewport_size}: {wide[:5]}"
    assert scrolls <= 0, f"the page scrolls {scrolls} px sideways"


#: Notes what the focus comes to, in a form that is the same each time.
_FOLLOW_FOCUS = """
() => {
  window.focused = [];
  document.addEventListener("focusin", ({ target: at }) => {
    const all = [...document.querySelectorAll("*")];
    const box = at.getBoundingClientRect();
    window.focused.push({ number: all.indexOf(at), html: at.outerHTML.slice(0, 160),
                          isSeen: box.width > 0 && box.height > 0 });
  });
}
"""

#: So often Tab is pressed before somebody asks where it led.
_TABS = 25

#: What somebody could use with a mouse; of radio buttons, one of each group.
_CONTROLS = """
() => {
  const all = [...document.querySelectorAll("*")];
  const groups = new Set();
  return all
    .filter((each) => each.matches("a[href], button, input:not([type=hidden]), select, "
      + "textarea, summary, [tabindex]"))
    .filter((each) => !each.disabled && each.tabIndex >= 0 && each.checkVisibility(
      { visibilityProperty: true }))
    .filter((each) => {
      if (each.type !== "radio") return true;
      const isNew = !groups.has(each.name);
      groups.add(each.name);
      return isNew;
    })
    .map((each) => ({ number: all.indexOf(each), html: each.outerHTML.slice(0, 160),
                      radio: each.type === "radio" ? each.name : null }));
}
"""


def walk_with_keyboard(page: Page) -> list[str]:
    """
    Press Tab until the focus has been everywhere; return what is wrong on the way.

    Returns:
        Controls that Tab does not reach, and those that nobody sees when it does, each
        time of three: a part that is live may be another in the middle of a walk.
    """
    wrong = ["not walked"]
    for _ in range(3):
        if wrong:
            wrong = [*_walk(page)]
    return wrong


def _walk(page: Page) -> Iterator[str]:
    controls = page.evaluate(_CONTROLS)
    page.evaluate("() => { document.activeElement?.blur(); window.scrollTo(0, 0); }")
    page.evaluate(_FOLLOW_FOCUS)
    reached: dict[int, None] = {}
    for at in _press_tab(page, len(controls) * 3 + 30):
        if at["number"] == next(reversed(reached), None):
            continue
        if at["number"] in reached:
            break
        reached[at["number"]] = None
        if not at["isSeen"]:
            yield f"the focus is at something that nobody sees: {at['html']}"
    for each in controls:
        if each["number"] not in reached and each["radio"] is None:
            yield f"Tab does not reach {each['html']}"


def _press_tab(page: Page, most: int) -> Iterator[dict[str, Any]]:
    """Yield what the focus comes to; a date is several stops that are not told."""
    for _ in range(0, most, _TABS):
        for _ in range(_TABS):
            page.keyboard.down("Tab")  # held, as by whoever goes far
        yield from page.evaluate("() => window.focused.splice(0)")
