"""What a page has: its links, its forms, its headings and its words."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urldefrag, urlencode, urljoin

_INLINE = {"a", "abbr", "b", "code", "em", "i", "small", "span", "strong", "time"}
_SILENT = {"script", "style"}
_CODE = {"code", "pre", "textarea"}

_MANY = (
    "(?:action|app|attempt|byte|change|day|domain|entrie|event|failure|file|group|hour"
    "|key|line|mail|message|minute|occurrence|operation|processe|recipient|record"
    "|revision|row|rule|run|second|slot|step|task|template|time|user|version|worker)s"
)

#: One thing that is told as many are.
_WRONG = re.compile(
    rf"(?<![\w.,:/#+-])1 (?:(?!that )(?:[a-z]+ )?{_MANY}"
    r"|(?:[a-z]+ )?(?:are|were|have|wait|need|match|stay))\b.{0,20}"
)


def find_wrong_numbers(text: str) -> list[str]:
    """Return where *text* has "1 rows", or "1 row are"."""
    return _WRONG.findall(" ".join(text.split()))


def find_uids(text: str, uids: Container[str]) -> list[str]:
    """
    Return where *text* calls something by one of *uids*.

    What follows a name, "(uid hello)", and what stands in a command is right.
    """
    told = re.sub(r"\buid '?[^)'\s]*|minutehand [a-z][^.|\n]*", "", text)
    words = re.finditer(r"(?<![\w/.-])[\w-]+(?![\w/-])", told)
    return [
        told[max(0, each.start() - 60) : each.end() + 20]
        for each in words
        if each[0] in uids
    ]


@dataclass
class Form:
    """
    A form.

    Args:
        fields: The values that it has from the beginning, by name.

        sendings: Of each button that sends it: where to, and what that adds.
    """

    method: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    sendings: list[tuple[str, dict[str, str]]] = field(default_factory=list)


class Markup(HTMLParser):
    """A page that was read; links are relative to its path."""

    def __init__(self, path: str, text: str) -> None:
        """Read it."""
        super().__init__(convert_charrefs=True)
        self.path = path
        #: Paths with queries; addresses of others as they are.
        self.links: list[str] = []
        #: Links to a part of a page.
        self.parts: list[str] = []
        self.forms: list[Form] = []
        #: Tag and text of each.
        self.headings: list[tuple[str, str]] = []
        self.ids: list[str] = []
        #: What is read of it, blocks apart, with what only listeners are told.
        self.words = ""
        #: The same without what is to be pasted, or is an id and nothing else.
        self.prose = ""
        self._coded: list[str] = []
        self._is_silent = False
        self._heading: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what somebody could follow."""
        given = {name: value or "" for name, value in attrs}
        self._is_silent = tag in _SILENT
        if tag in _CODE or "id" in given.get("class", "").split():
            self._coded.append(tag)
        if tag not in _INLINE:
            told = (given.get(name) for name in ("aria-label", "title", "alt"))
            block = f" | {' | '.join(filter(None, told))} | "
            self.words += block
            self.prose += block
        if "id" in given:
            self.ids.append(given["id"])
        match tag:
            case "a" if given.get("href"):
                self.links.append(self._find(given["href"]))
                if "#" in given["href"]:
                    self.parts.append(urljoin(self.path, given["href"]))
            case "iframe" if given.get("src"):
                self.links.append(self._find(given["src"]))
            case "form":
                action = self._find(given.get("action") or self.path)
                self.forms.append(Form(given.get("method", "get").lower(), action))
            case "input" | "button" if self.forms:
                self._handle_field(tag, given)
            case "h1" | "h2" | "h3" | "h4":
                self._heading = tag
                self.headings.append((tag, ""))

    @property
    def questions(self) -> list[str]:
        """Where forms lead that only ask, as they are before anybody types."""
        return [
            f"{action.partition('?')[0]}?{urlencode({**form.fields, **added})}"
            for form in self.forms
            if form.method == "get"
            for action, added in form.sendings
        ]

    def _handle_field(self, tag: str, given: dict[str, str]) -> None:
        """Keep what a form sends; a search is sent by the key alone, too."""
        form, name = self.forms[-1], given.get("name", "")
        own = {name: given.get("value", "")} if name else {}
        if tag == "button":
            if given.get("type", "submit") == "submit":
                action = given.get("formaction")
                form.sendings.append(
                    (self._find(action) if action else form.action, own)
                )
            return
        if given.get("type") == "search":
            form.sendings.append((form.action, {}))
        # Of boxes, somebody chooses the first.
        if given.get("type") == "checkbox" and "checked" not in given:
            form.fields = {**own, **form.fields}
        elif given.get("type") != "radio" or "checked" in given:
            form.fields |= own

    def handle_endtag(self, tag: str) -> None:
        """End a heading, or what nobody reads."""
        self._is_silent = False
        if self._coded[-1:] == [tag]:
            self._coded.pop()
        if tag not in _INLINE:
            self.words += " | "
            self.prose += " | "
        if tag == self._heading:
            self._heading = None

    def handle_data(self, data: str) -> None:
        """Keep the text, and that of a heading."""
        if not self._is_silent:
            self.words += data
            self.prose += "" if self._coded else data
        if self._heading:
            tag, text = self.headings[-1]
            self.headings[-1] = (tag, f"{text}{data}")

    def _find(self, address: str) -> str:
        return urldefrag(urljoin(self.path, address)).url
