"""What people see, where programs would ask for JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.integration.cli.calling import Call, Post, write_action
from tests.servers import ROOT


def write_rule(folder: Path, rule: str) -> str:
    return write_action(folder, when={"cron_rule": rule, "timezone": "Europe/Paris"})


def test_preview_shows_words_local_time_and_utc(embedded: Call, tmp_path: Path):
    """
    A line for each occurrence has the clock of the rule, UTC, that of the viewer, and
    what the clocks do: the hour from 02:00 comes twice on that day.
    """
    answer = embedded(
        *("preview", write_rule(tmp_path, "30 2 * * 0"), "--count", "1"),
        *("--from", "2027-10-30T00:00Z", "--timezone", "Asia/Tokyo"),
    )

    assert 0 == answer.code
    assert "Sundays at 02:30, Europe/Paris" in answer.out
    (line,) = (each for each in answer.out.splitlines() if "Z" in each)
    assert "Sun 2027-10-31 02:30:00 +0200" in line
    assert "2027-10-31 00:30:00Z" in line
    assert "Sun 2027-10-31 09:30:00 +0900" in line
    assert "first" in line


def test_preview_of_nothing_says_when_it_is_due_next(embedded: Call, tmp_path: Path):
    """An empty answer is explained where the table would be."""
    answer = embedded(
        *("preview", write_rule(tmp_path, "0 7 * * 1")),
        *("--from", "2026-11-21T00:00Z", "--until", "2026-11-22T00:00Z"),
    )

    assert 0 == answer.code
    assert "next at 2026-11-23T06:00:00Z" in answer.out


def test_holidays_need_an_app(embedded: Call, tmp_path: Path):
    """Without one nobody knows whose they are."""
    path = write_action(tmp_path, **{"except": [{"calendar": "fr"}]})

    answer = embedded("preview", path)

    assert 3 == answer.code
    assert "Name the app with --app." in answer.err


def test_batch_answers_a_line_before_the_next_one_comes(embedded: Call, tmp_path: Path):
    """The other end may wait for each answer."""
    action = json.loads(Path(write_rule(tmp_path, "0 7 * * *")).read_text())
    seven = "2026-11-23T06:00:00Z"
    periods = [(seven, "2026-11-24T00:00:00Z"), (seven, seven), (seven, "2026-11-01Z")]

    lines = [
        json.dumps({"id": number, "action": action, "from": since, "until": until})
        for number, (since, until) in enumerate(periods)
    ]
    (tmp_path / "lines").write_text("\n".join(lines))
    of_file = embedded("preview", "--batch", str(tmp_path / "lines")).out.splitlines()

    answers = []
    with subprocess.Popen(
        [sys.executable, "-m", "cli.main", "preview", "--batch", "-"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None  # both are pipes
        assert process.stdout is not None
        for line in lines:
            process.stdin.write(f"{line}\n")
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()

    assert 0 == process.returncode
    assert {"id": 0, "occurrences": [seven]} == answers[0]
    assert {"id": 1, "occurrences": []} == answers[1]
    assert {"id", "error"} == set(answers[2])
    assert answers == [json.loads(line) for line in of_file]


def test_apply_tells_what_changed(call: Call, tmp_path: Path):
    path = tmp_path / "app.json"
    users = [{"id": "u1"}, {"id": "u2"}]
    path.write_text(json.dumps({"uid": "shop", "users": users}))
    first = call("apps", "apply", str(path)).out
    again = call("apps", "apply", str(path)).out
    users = [{"id": "u2", "name": "Grace"}, {"id": "u3"}]
    path.write_text(json.dumps({"uid": "shop", "users": users, "holidays": {}}))

    changed = call("apps", "apply", str(path)).out

    assert "Created small app shop.\n  users: 2 added\n" == first
    assert "Updated small app shop.\n  users: unchanged\n" == again
    assert "  users: 1 added, 1 changed, 1 removed\n" in changed


def test_actions_are_listed_with_what_each_waits_for(call: Call, post: Post):
    post(when={"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"})
    for name in ("greet", "asleep"):
        event = {"on": "instance.user.created"}
        post(name=name, uid=name, when=event)
    paused = call("actions", "pause", "asleep")
    again = call("actions", "pause", "asleep")

    listed = call("actions", "list").out

    rows = {line.split()[0]: line for line in listed.splitlines()}
    assert "active" in rows["hello"]
    assert "07:00" in rows["hello"]
    assert "on event" in rows["greet"]
    assert "paused" in rows["asleep"]
    assert "on event" not in rows["asleep"]
    assert "Paused asleep (uid asleep).\n" == paused.out
    assert "It was already paused." in again.err


#: Commands that tell occurrences, and those that tell of what happened.
TELL_OCCURRENCES = (
    "actions post {path} --app shop --replace",
    "actions list",
    "actions show hello",
    "status",
    "why hello",
    "actions backfill hello --from 2026-01-05T22:00Z --dry-run",
    "backfills show {backfill}",
    "tick --dry-run --at {tomorrow}",
    "actions apply {folder} --app shop --dry-run",
    "actions apply {folder} --app shop",
    "actions pause hello --until 2030-01-10T22:00Z",
)
TELL_RUNS = ("operations list", "operations show {operation}", "backfills list")


def test_occurrences_are_told_by_the_clock_of_their_rule(call: Call, shop: Path):
    """
    First, whatever the clock of the host; then in UTC. So are all times of a run, and
    of a backfill, so that they can be compared.
    """
    ids = prepare_in_tokyo(call, shop)
    told = {
        line: " ".join(call(*line.format(**ids).split()).out.split())  # broken anyhow
        for line in (*TELL_RUNS, *TELL_OCCURRENCES)
    }

    both = r" 07:00:00 \+09:00 \(\d{4}-\d\d-\d\d 22:00:00Z\)"
    assert [] == [line for line in TELL_OCCURRENCES if not re.search(both, told[line])]
    local, alone = r"\d\d:\d\d:\d\d \+09:00 \(", r"\d:\d\dZ(?!\))"
    assert [] == [line for line in TELL_RUNS if not re.search(local, told[line])]
    assert [] == [line for line in TELL_RUNS if re.search(alone, told[line])]


def prepare_in_tokyo(call: Call, shop: Path) -> dict[str, str]:
    """Post an action that is due at 07:00 there, run it, and begin a backfill of it."""
    when = {"cron_rule": "0 7 * * *", "timezone": "Asia/Tokyo"}
    path = write_action(shop, when=when)
    assert 0 == call("actions", "post", path, "--app", "shop").code
    (shop / "apply").mkdir()
    write_action(shop / "apply", when={**when, "cron_rule": "0 7 * * 1"})
    period = ("--from", "2026-01-05T22:00Z", "--until", "2026-01-05T22:01Z")
    begun = call("actions", "backfill", "hello", *period, "--yes", "--json").data
    return {
        "path": path,
        "folder": str(shop / "apply"),
        "backfill": begun["id"],
        "operation": call("actions", "run", "hello").out.strip(),
        "tomorrow": f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}T22:00Z",
    }
