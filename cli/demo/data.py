"""
The small app of the demo: real data from the time zone database.

Everything is written into the folder of the demo, laid out as an admin would do it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path

from models.door.documents import ReadContext, read_action
from models.fields.zone import load_zone
from models.scheduled_action import ScheduledActionModel

APP = "demo"

#: The user who gets all mails in the examples of the documentation.
TOCO = "toco@tou.can"
#: A user who was last seen so long ago that the example action mails during the demo.
SLEEPER = "sleepy@example.com"

#: How long the example action waits after a user was last seen.
ABSENCE = timedelta(days=7, seconds=30)

#: Uids of its own actions, whose documents are files of these names: one that runs each
#: minute, one whose worker is killed, and one whose runs were missed.
EVERY_MINUTE, REPORT, MISSED = "every-minute", "daily-report", "figures"

_DATABASE = resources.files("tzdata") / "zoneinfo"

_INACTIVE = {
    "subject": "{{ app.name }} misses you",
    "text": (
        "Hello {{ user.name }},\n\n"
        # A run by hand has no event.
        "{% if event.at %}you were last seen on"
        " {{ event.at.strftime('%d %B at %H:%M') }} UTC.\n{% endif %}"
        "Come back and look at {{ app.name }}.\n"
    ),
}


def read_document(name: str) -> ScheduledActionModel:
    """Return the action of the demo whose document has that name."""
    text = (resources.files("cli") / "examples" / f"{name}.json").read_text("utf-8")
    return read_action(text, ReadContext("Europe/Paris"))


def write_app(folder: Path, *, now: datetime) -> Path:
    """
    Write the data and the document of the small app; return the document's path.

    Args:
        folder: Of the demo; exists.
        now: Aware. The users signed up a month before it.
    """
    data = folder / "data"
    data.mkdir(parents=True)
    zones = list(_read_table("zone1970.tab", columns=4))
    _write_csv(
        data / "zones.csv",
        ("zone", "country", "countries", "position", "comment"),
        (
            (zone, countries.partition(",")[0], countries, position, comment)
            for countries, position, zone, comment in zones
        ),
    )
    _write_csv(
        data / "countries.csv", ("code", "name"), _read_table("iso3166.tab", columns=2)
    )
    _write_csv(
        data / "rules.csv",
        ("rule", "first_year", "last_year", "month", "day", "at", "save", "letter"),
        _read_rules(),
    )
    write_clocks(data, now=now)
    path = folder / "app.json"
    path.write_text(json.dumps(_make_document(now), indent=2), encoding="utf-8")
    return path


def write_clocks(data: Path, *, now: datetime) -> None:
    """Write what the clocks of every zone show *now* (aware)."""
    draft = data / ".clocks.csv"
    rows = []
    for _countries, _position, zone, _comment in _read_table("zone1970.tab", columns=4):
        local = now.astimezone(load_zone(zone))
        rows.append((zone, f"{local:%Y-%m-%d %H:%M}", f"{local:%z}", f"{local:%Z}"))
    _write_csv(draft, ("zone", "local_time", "offset", "abbreviation"), rows)
    # A refresh that reads meanwhile sees the old file or the new one, never half.
    draft.replace(data / "clocks.csv")


def _read_table(name: str, *, columns: int) -> Iterable[Sequence[str]]:
    """Yield the rows of a file of the database, padded to *columns*."""
    for line in (_DATABASE / name).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            fields = line.split("\t")
            yield [*fields, *[""] * (columns - len(fields))]


def _read_rules() -> Iterable[Sequence[str]]:
    """Yield all rules of daylight saving time, past and present."""
    for line in (_DATABASE / "tzdata.zi").read_text("utf-8").splitlines():
        fields = line.split()
        # "R name first last - month day at save letter"
        if fields and fields[0] == "R":
            _kind, name, first, last, _none, *rest = fields
            last = {"o": first, "ma": "9999"}.get(last, last)
            yield (name, first, last, *rest)


def _write_csv(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def _make_document(now: datetime) -> dict[str, object]:
    month = timedelta(days=30)
    since = {"created_at": _text(now - month), "activated_at": _text(now - month)}
    managers = [
        {"id": f"{name.lower()}@example.com", "name": name, "groups": ["manager"]}
        for name in ("Ada", "Grace")
    ]
    return {
        "uid": APP,
        "name": "Time zones of the world",
        "timezone": "Europe/Paris",
        "users": [
            {"id": TOCO, "name": "Toco", **since},
            *({**manager, **since} for manager in managers),
            {"id": SLEEPER, "name": "Sleepy", **since},
            {"id": "never@example.com", "name": "Never activated"},
        ],
        "domains": [
            {"name": name, "source": {"file": f"data/{file}.csv"}}
            for name, file in (
                ("a", "zones"),
                ("b", "countries"),
                ("clocks", "clocks"),
                ("rules", "rules"),
            )
        ],
        "templates": {"inactive": _INACTIVE},
    }


def _text(instant: datetime) -> str:
    return instant.isoformat(timespec="seconds")


def shorten_path(path: Path) -> Path:
    """Return *path* as seen from here, if it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
