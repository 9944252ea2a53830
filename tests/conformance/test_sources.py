"""Sources, in memory and on files, keep their promises."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from operations.adapters.sources.sources import RealSources
from operations.domains import Domain, Fingerprint, Reading, ReadRequest
from operations.ports import Sources
from tests.servers import wait_until
from tests.unit.operations.fakes import FakeSources, failing


@dataclass
class Case:
    """Sources, and how a file of so many rows comes to be one of them."""

    sources: Sources
    folder: Path
    write: Callable[[str, int], None]

    def read(
        self, file: str, known: Fingerprint | None = None, **source: Any
    ) -> Reading | None:
        """Read *file* for domain "sales" of app "shop"."""
        domain = Domain("sales", {"file": file, **source}, folder=self.folder)
        target = self.folder / "out.parquet"
        target.unlink(missing_ok=True)
        return self.sources.read(ReadRequest("shop", domain, target, known))


@pytest.fixture(params=["memory", "files"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Give each of the two."""
    if request.param == "memory":
        fake = FakeSources()

        def note(name: str, rows: int) -> None:
            fake.rows[name] = rows
            fake.etags[name] = str(rows)

        return Case(fake, tmp_path, note)

    def write(name: str, rows: int) -> None:
        path = tmp_path / name
        path.write_text("n\n" + "1\n" * rows)
        # so long ago that nobody can be writing it now
        os.utime(path, (1_700_000_000 + rows, 1_700_000_000 + rows))
        # and this time cannot be set
        wait_until(
            lambda: time.time() - path.stat().st_ctime > 0.06,
            what="a tick of the file clock",
        )

    return Case(RealSources(), tmp_path, write)


def test_rows_are_read_into_the_target(case: Case) -> None:
    """How many there are is told, and what the source said of its state."""
    case.write("a.csv", 3)

    reading = case.read("a.csv")

    assert reading is not None
    assert reading.rows == 3
    assert reading.fingerprint.etag is not None
    assert (case.folder / "out.parquet").stat().st_size


def test_source_that_is_as_it_was_is_not_read(case: Case) -> None:
    """Until it changes."""
    case.write("a.csv", 3)
    first = case.read("a.csv")
    assert first is not None

    again = case.read("a.csv", first.fingerprint)
    case.write("a.csv", 4)
    changed = case.read("a.csv", first.fingerprint)

    assert again is None
    assert changed is not None
    assert changed.rows == 4


def test_state_of_another_source_means_nothing(case: Case) -> None:
    """A domain whose source was changed is read, whatever the other one said."""
    for name in ("a.csv", "b.csv"):
        case.write(name, 3)
    first = case.read("a.csv")
    assert first is not None

    reading = case.read("b.csv", first.fingerprint)

    assert reading is not None


def test_missing_source_fails_for_good(case: Case) -> None:
    """The message names domain and file."""
    with failing(r"domain sales: source file none\.csv", permanent=True):
        case.read("none.csv")
