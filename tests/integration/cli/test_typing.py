"""What people type: the beginning of an id, times near the present, and TAB."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from cli.connection import get_engine
from cli.main import main
from cli.options import shorten
from models.database.tables import operations
from overview.suggestions import OFFERED
from tests.database import execute, fetch_rows
from tests.integration.cli.calling import Call, Configure, Post, write_action
from tests.presence import give_sign, make_worker
from tests.scheduling import make_operation, record_all


@pytest.fixture
def ran(call: Call, shop: Path, post: Post) -> str:
    """Give the id of the one operation, of the action ``hello`` of ``shop``."""
    assert shop.exists()
    assert 0 == post(when={"cron_rule": "0 7 1 1 *"}).code
    return call("actions", "run", "hello").out.strip()


def test_first_digits_of_an_id_are_enough(call: Call, ran: str):
    """And names stand for what triggered a run."""
    listed = call("operations", "list")

    start = shorten(UUID(ran))
    assert start in listed.out
    assert ran not in listed.out
    for command in ("show", "state", "log", "cancel"):
        assert 0 == call("operations", command, start).code
    assert 0 == call("mails", "list", "--operation", start).code
    shown = call("operations", "show", ran[:4].upper()).out
    assert ran in shown
    for told in (listed.out, shown):
        assert "hello" in told
        assert "Scheduled action" not in told


def test_ids_that_begin_alike_are_named(call: Call, ran: str, engine: sa.Engine):
    other = ran[:9] + ("0000" if ran[9:13] != "0000" else "1111") + ran[13:]
    (row,) = fetch_rows(engine, operations.select()).mappings()
    execute(
        engine, operations.insert(), {**row, "id": UUID(other), "user_id": "another"}
    )

    answer = call("operations", "show", ran[:8])

    assert 5 == answer.code
    assert ran in answer.err
    assert other in answer.err


def test_times_near_the_present_need_no_date(call: Call, ran: str):
    assert UUID(ran)
    assert 0 == call("why", "hello", "--at", "-1h").code
    for time in ("now", "today", "yesterday", "-2d", "+1h"):
        assert 0 == call("operations", "list", "--from", time).code, time
    assert 0 == call("operations", "list", "--until", "-2d").code


def _complete(
    monkeypatch: pytest.MonkeyPatch, words: str, *, shell: str = "bash"
) -> None:
    monkeypatch.setenv("_MINUTEHAND_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", f"minutehand {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" "))))
    main([])


def test_shell_completes_names(
    ran: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """
    TAB offers uids and names that are stored, and commands; of an operation as many
    digits as tables show, or the whole id if more were typed.
    """
    give_sign(get_engine(), make_worker(name="quick@host"))
    expected = {
        "actions show h": ["hello"],
        "why h": ["hello"],
        "apps show s": ["shop"],
        "operations list --app s": ["shop"],
        "operations list --action h": ["hello"],
        "actions show x": [],
        "operat": ["operations"],
        "queues pause q": ["quick"],
        "operations list --queue he": ["heavy"],
        "operations list --state fa": ["failed"],
        "workers drain qu": ["quick@host"],
        "workers drain h": [],
        "operations show ": [ran[:8]],
        f"operations cancel {ran[:3]}": [ran[:8]],
        f"mails list --operation {ran[:8]}": [ran[:8]],
        f"mails confirm {ran[:10]}": [ran],
    }
    offered = {}
    for words in expected:
        _complete(monkeypatch, words)
        offered[words] = capsys.readouterr().out.split()

    assert expected == offered


def test_shell_offers_the_latest_operations(
    call: Call,
    ran: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Not thousands of them; each with what it is."""
    assert 0 == call("operations", "cancel", ran).code
    record_all(get_engine(), *(make_operation(number) for number in range(30)))
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "minutehand operations show ")

    _complete(monkeypatch, "operations show ", shell="zsh")  # noqa: S604 - its name

    told = capsys.readouterr().out
    assert OFFERED == told.count("pending daily")


def test_names_are_never_evaluated_by_a_shell(
    ran: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    post: Post,
):
    """Nothing that a tenant writes into a name reaches a shell that evaluates it."""
    assert UUID(ran)
    assert 0 == post(uid="trap", name="trap\\$(touch owned)`id`';\"").code
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "minutehand actions show tr")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")

    for shell in ("bash", "zsh", "fish"):
        _complete(monkeypatch, "actions show tr", shell=shell)

        offered = capsys.readouterr().out
        assert "trap" in offered, shell
        assert not set("\\$`;") & set(offered), shell


def test_completion_is_silent_without_a_database(
    embedded: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    configure: Configure,
):
    """TAB creates none, and complains of nothing: neither of one that is away."""
    assert 0 == embedded("--version").code

    _complete(monkeypatch, "actions show h")
    configure(DATABASE_URL="postgresql://127.0.0.1:1/none", LOKBACK="PT5M")
    _complete(monkeypatch, "actions show h")

    printed = capsys.readouterr()
    assert ("", "") == (printed.out.strip(), printed.err)
    assert not (tmp_path / "home" / "minutehand.sqlite3").exists()


def test_preview_until_an_end_is_not_cut_at_ten(embedded: Call, tmp_path: Path):
    """Who names an end sees all until then, or is told that there are more."""
    path = write_action(tmp_path, when={"cron_rule": "*/30 * * * *", "timezone": "UTC"})
    day = ("--from", "2026-11-21T00:00Z", "--until", "2026-11-22T00:00Z")

    whole = embedded("preview", path, *day, "--json").data["occurrences"]
    month = embedded("preview", path, *day[:3], "2026-12-21T00:00Z")

    assert 48 == len(whole)
    assert "Only the first 1,000 are shown" in month.out
    assert 10 == len(json.loads(embedded("preview", path, "--json").out)["occurrences"])


def test_what_begins_alike_is_compared_first(
    call: Call, ran: str, monkeypatch: pytest.MonkeyPatch, post: Post
):
    """Among more actions than are compared, a typo still finds what was meant."""
    assert UUID(ran)
    assert 0 == post(uid="aardvark", name="Aardvark").code
    monkeypatch.setattr("actions.lookup._COMPARED", 1)

    assert "Did you mean 'hello'?" in call("actions", "show", "helo").err
