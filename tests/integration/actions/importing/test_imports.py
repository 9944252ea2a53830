"""``import`` as people and programs call it: outputs, exit codes, refusals."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from actions.importing.readers.databases import open_database
from tests.integration.cli.calling import Call

LINES = "0 7 * * * report\n@reboot start\n"


def test_documents_go_to_standard_output(importing: Call):
    """So that ``actions post -`` can take them; the report does not disturb it."""
    Path("crontab").write_text(LINES)

    answer = importing("crontab", "crontab")

    assert [each["name"] for each in answer.data] == ["report"]
    assert "1 exact, 0 differs, 1 cannot be" in answer.err
    assert answer.code == 1


def test_report_for_programs(importing: Call):
    Path("crontab").write_text(LINES)

    data = importing("crontab", "crontab", "--json", "--task", "sh.run").data
    first, second = data["entries"]

    members = ("origin", "exact", "differs", "cannot_be", "notes", "entries")
    assert (tuple(data), data["exact"]) == (members, 1)
    assert tuple(first) == ("entry", "rule", "verdict", "notes", "file", "document")
    assert first["document"]["operations"]["run_task"]["name"] == "sh.run"
    assert (second["verdict"], second["document"]) == ("cannot_be", None)


@pytest.mark.parametrize(
    ("options", "kwargs"),
    [
        ((), {"command": "--daily", "user": "root"}),
        (("--system",), {"command": "--daily", "user": "root"}),
        (("--personal",), {"command": "root --daily"}),
    ],
)
def test_users_of_a_crontab_can_be_told(
    options: tuple[str, ...], kwargs: dict[str, str], importing: Call
):
    """Where finding out would be wrong: a personal crontab whose commands begin so."""
    Path("crontab").write_text("0 7 * * * root --daily\n")

    (document,) = importing("crontab", "crontab", *options).data

    assert document["operations"]["run_task"]["kwargs"] == kwargs


def test_files_are_not_overwritten(importing: Call):
    Path("crontab").write_text("0 7 * * * report\n")
    asked = ("crontab", "crontab", "--out", "actions")

    codes = [importing(*asked, *more).code for more in ((), (), ("--overwrite",))]

    assert [0, 5, 0] == codes


def test_what_several_entries_say_is_said_once(importing: Call):
    """Each refers to it."""
    lines = [f"{minute} 7 * * * report{minute}" for minute in range(3)]
    Path("crontab").write_text("\n".join(["CRON_TZ=Europe/Paris", *lines, ""]))

    answer = importing("crontab", "crontab")

    assert 3 == answer.err.count("- see (1) below")
    assert 1 == answer.err.count("Read as cronie does")
    assert "\n(1) Read as cronie does" in answer.err


def test_what_settings_stand_against_is_a_warning(
    importing: Call, monkeypatch: pytest.MonkeyPatch
):
    """A broker in memory is no reason to write nothing; another one is offered."""
    monkeypatch.setenv("MINUTEHAND_BROKER_URL", "memory://")
    monkeypatch.setenv("MINUTEHAND_TASK_CONNECTIONS", "shop=redis://localhost/1")
    Path("crontab").write_text("0 7 * * * report\n")

    answer = importing("crontab", "crontab")

    assert (answer.code, len(answer.data)) == (0, 1)
    assert "would be refused here" in answer.err
    assert "Add --connection shop." in answer.err


def test_nothing_to_import_is_said(importing: Call):
    Path("crontab").write_text("# 0 7 * * * report\n")

    answer = importing("crontab", "crontab")

    assert (answer.code, answer.data) == (0, [])
    assert "warning: Nothing was found to import.\n" in answer.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("crontab", "missing"), 2, "No such file"),
        (("crontab", "empty", "--timezone", "Mars"), 2, "--timezone"),
        (("crontab", "empty", "--connection", "shop"), 2, "--connection"),
        (("crontab", "empty", "--system", "--personal"), 2, "--personal"),
        (("k8s", "broken.yaml"), 3, "not YAML"),
        (("celery-beat", "no_such_module"), 2, "cannot be imported"),
        (("celery-beat", "empty_module"), 2, "cannot be imported"),
        (("celery-beat", "proj/celery.py"), 2, "Did you mean 'proj.celery'?"),
        (("celery-beat", "./shop.py"), 2, "Did you mean 'shop'?"),
        (("celery-beat", "x", "--python", "/no/python"), 2, "--python"),
        (("django-celery-beat", "mysql://u:geheim@h/db"), 2, "not a database"),
        (("django-celery-beat", "sqlite:///missing"), 2, "no file"),
        (("django-celery-beat", "sqlite:///other.db"), 2, "no tables"),
        (("apscheduler", "sqlite:///other.db"), 2, "no tables"),
        (("apscheduler", "sqlite:///empty"), 2, "no tables"),
        (("redbeat", "amqp://u:geheim@h"), 2, "not Redis"),
        (("redbeat", "nothing"), 2, "URL"),
        (("redbeat", "redis://:geheim@127.0.0.1:1/0"), 6, "cannot be read"),
        (("django-celery-beat", "postgresql://u:geheim@127.0.0.1:1/x"), 6, ""),
    ],
)
def test_refusals_have_their_exit_code(
    arguments: tuple[str, ...], code: int, words: str, importing: Call
):
    """Each says what is wrong; none shows a password or a trace."""
    Path("empty").write_text("")
    Path("empty_module.py").write_text("")
    Path("broken.yaml").write_text("a: [")
    Path("other.db").write_bytes(b"")
    answer = importing(*arguments)

    assert answer.code == code
    assert words in answer.err
    assert "geheim" not in answer.err + answer.out
    assert "Traceback" not in answer.err


def test_module_that_fails_is_told_without_its_passwords(importing: Call):
    """The last line of what it said, since that is the error."""
    Path("shop.py").write_text(
        "print('loading')\nraise OSError('redis://:geheim/2@host/0 is away')\n"
    )

    answer = importing("celery-beat", "shop", "--python", sys.executable)

    assert answer.code == 2
    assert "redis://host/0 is away" in answer.err
    assert "geheim" not in answer.err


def test_signals_routes_and_tasks_of_an_application_count(importing: Call):
    Path("shop.py").write_text(
        "from celery import Celery\n"
        "from celery.schedules import crontab\n"
        "print('noise on standard output')\n"
        "app = Celery('shop', broker='memory://')\n"
        "app.conf.task_default_queue = 'usual'\n"
        "app.conf.task_routes = {\n"
        "    'shop.b': {'queue': 'routed', 'priority': 7, 'time_limit': 60},\n"
        "    'shop.c': {'exchange': 'mails', 'routing_key': 'daily'},\n"
        "}\n"
        "@app.task(name='shop.a')\n"
        "def a(): pass\n"
        "@app.task(name='shop.b')\n"
        "def b(when): pass\n"
        "@app.task(name='shop.c')\n"
        "def c(): pass\n"
        "@app.on_after_finalize.connect\n"
        "def setup(sender, **_):\n"
        "    seven = crontab(hour=7, minute=0)\n"
        "    sender.add_periodic_task(seven, a.s(), name='first')\n"
        "    sender.add_periodic_task(seven, b.s(1), name='second')\n"
        "    sender.add_periodic_task(60, b.s(object()), name='third')\n"
        "    sender.add_periodic_task(seven, c.s(), name='fourth')\n"
        "    sender.add_periodic_task(seven, c.s(), name='fifth', queue='own')\n"
        "    sender.add_periodic_task(seven, b.s(), name='sixth', exchange='own')\n"
        "app.conf.beat_schedule = {'broken': {'task': 'x'}}\n"
    )

    entries = importing("celery-beat", "shop", "--json").data["entries"]
    by_name = {each["entry"]: each for each in entries}
    steps = {
        name: each["document"]["operations"]["run_task"]
        for name, each in by_name.items()
        if each["document"]
    }

    ways = {
        name: (step.get("queue"), step.get("exchange"), step.get("routing_key"))
        for name, step in steps.items()
    }
    assert ways == {
        "first": ("usual", None, None),
        "second": ("routed", None, None),
        "fourth": (None, "mails", "daily"),
        # as Celery merges them
        "fifth": (None, "mails", "daily"),
        "sixth": ("routed", None, None),
    }
    assert (7, "PT1M") == (steps["second"]["priority"], steps["second"]["time_limit"])
    assert steps["second"]["args"] == [1]
    assert by_name["first"]["document"]["when"]["timezone"] == "UTC"
    assert "object object" in by_name["third"]["notes"][0]
    assert "could not be read" in by_name["broken"]["notes"][0]


def test_redis_that_says_nothing_is_not_waited_for(
    importing: Call, monkeypatch: pytest.MonkeyPatch
):
    short = timedelta(seconds=0.2)
    monkeypatch.setattr("actions.importing.readers.databases.TIMEOUT", short)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        answer = importing("redbeat", f"redis://127.0.0.1:{port}/0")

    assert answer.code == 6


def test_jobs_in_postgresql(
    importing: Call, run_program: Callable[[str], None], postgres_url: str
):
    """Whichever driver the address names, and in a transaction that cannot write."""
    run_program(
        f"""
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler(timezone="UTC")
scheduler.add_jobstore(SQLAlchemyJobStore({postgres_url!r}, tablename="jobs"))
scheduler.start(paused=True)
scheduler.add_job("glob:glob", "cron", ["*"], id="it", hour=7)
scheduler.shutdown()
"""
    )
    scheme, _, rest = postgres_url.partition("://")
    url = f"postgresql+psycopg2://{rest}"
    try:
        found = importing("apscheduler", url, "--table", "public.jobs", "--json").data
        with open_database(url, of="it") as connection:
            shown = connection.exec_driver_sql("SHOW transaction_read_only").scalar()
    finally:
        engine = sa.create_engine(f"{scheme}://{rest}")
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE jobs")
        engine.dispose()

    assert (found["exact"], shown) == (1, "on")
