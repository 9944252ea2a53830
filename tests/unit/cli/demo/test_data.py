"""The data of the demo are real, whole and readable."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

from cli.demo.data import APP, write_app, write_clocks
from models.door.app_documents import read_small_app

NOW = datetime(2026, 11, 23, 6, tzinfo=UTC)


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_document_comes_through_the_door(tmp_path: Path):
    """The small app of the demo is posted as any admin would post it."""
    app = read_small_app(write_app(tmp_path, now=NOW).read_bytes())

    assert app.uid == APP
    assert {"a", "b"} <= {domain.name for domain in app.domains or ()}
    for domain in app.domains or ():
        assert (tmp_path / str(domain.source.file)).is_file()


def test_files_hold_the_time_zone_database(tmp_path: Path):
    write_app(tmp_path, now=NOW)

    zones = _read(tmp_path / "data" / "zones.csv")
    countries = _read(tmp_path / "data" / "countries.csv")
    rules = _read(tmp_path / "data" / "rules.csv")
    assert "Europe/Paris" in {row["zone"] for row in zones}
    assert {"code": "FR", "name": "France"} in countries
    assert "1981" in {row["first_year"] for row in rules if row["rule"] == "E"}


def test_clocks_show_what_the_time_is(tmp_path: Path):
    write_clocks(tmp_path, now=NOW)

    clocks = {row["zone"]: row for row in _read(tmp_path / "clocks.csv")}
    assert "2026-11-23 07:00" == clocks["Europe/Paris"]["local_time"]
