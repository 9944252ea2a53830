"""``preview``, of one action and of many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cli.calling import WEEKLY, Call, write_action

NEVER = "2026-01-01T00:00:00Z"


def test_preview_needs_no_database(call: Call):
    """The example is due on Mondays at seven in Paris, whatever is stored."""
    answer = call(
        *("preview", str(WEEKLY), "--from", "2026-11-21T00:00:00Z"),
        *("--count", "2", "--json"),
    )

    assert ["2026-11-23T06:00:00Z", "2026-11-30T06:00:00Z"] == [
        each["utc"] for each in answer.data["occurrences"]
    ]


def test_batch_answers_line_for_line(call: Call, tmp_path: Path):
    """Each line has one answer; a bad line does not end the others."""
    lines = [
        {
            "id": 1,
            "action": json.loads(WEEKLY.read_text()),
            "from": "2026-11-23T00:00:00Z",
            "until": "2026-11-24T00:00:00Z",
        },
        {"id": 2, "action": {}, "from": NEVER, "until": NEVER},
    ]
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    answer = call("preview", "--batch", str(path))

    good, bad = map(json.loads, answer.out.splitlines())
    assert {"id": 1, "occurrences": ["2026-11-23T06:00:00Z"]} == good
    assert (2, ["error", "id"]) == (bad["id"], sorted(bad))


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_preview_says_how_a_switch_was_read(
    call: Call, tmp_path: Path, options: tuple[str, ...]
):
    """As a post does, and not among the data."""
    answer = call("preview", write_action(tmp_path, active="yes"), *options)

    assert 0 == answer.code
    assert "warning: /active: 'yes' was read as true. Write true.\n" == answer.err


def test_holidays_need_an_app(call: Call, tmp_path: Path):
    """Without one nobody knows whose they are."""
    path = write_action(tmp_path, **{"except": [{"calendar": "fr"}]})

    answer = call("preview", path)

    assert 3 == answer.code
    assert "Name the app with --app." in answer.err
