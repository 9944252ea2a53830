"""The short form of ``make chaos``."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.run import run_chaos
from tests.programs import demand_program


def test_chaos_breaks_no_promise(tmp_path: Path) -> None:
    """
    Every occurrence is decided once, every mail is there once or reported uncertain.
    """
    demand_program("pgbouncer")

    report = run_chaos(tmp_path, seconds=6, seed=1, names=["storm"], apps=1)

    # How late a tick is depends on the machine: `make chaos` judges it, and no test.
    wrong = [each for each in report.wrong if not each.startswith("the tick of")]
    assert wrong == [], report.text
    assert report.counts["Mails"]["arrived"] > 0
