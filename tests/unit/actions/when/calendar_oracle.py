"""
Asks systemd-analyze when calendar rules are due, and records the answers.

``python -m tests.unit.actions.when.calendar_oracle`` asks for each rule of
calendar_vectors.json anew, on a host with systemd 252. The tests read it everywhere.
They are every form of systemd.time(7), what lies just outside, and some made up.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from random import Random

VECTORS = Path(__file__).with_name("calendar_vectors.json")

PROGRAM = shutil.which("systemd-analyze")


#: How many occurrences each question asks for.
ITERATIONS = 6

ZONES = ("Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")


@dataclass(frozen=True, slots=True)
class Vector:
    """
    What systemd says about a rule.

    Args:
        rule: The text; read in UTC unless it names a zone.

        base: Aware UTC, ISO 8601; occurrences are later than this.

        normalized: None if the rule is refused.

        occurrences: UTC, ``2026-11-23T06:00:00``; fewer than asked for if it ends.
    """

    rule: str
    base: str
    normalized: str | None
    occurrences: tuple[str, ...]


def ask_oracle(rule: str, base: datetime) -> Vector:
    """Return when *rule* is due after *base* (aware UTC), as systemd says."""
    assert PROGRAM is not None, "has_oracle() is False"
    answer = subprocess.run(
        [
            PROGRAM,
            "calendar",
            f"--iterations={ITERATIONS}",
            f"--base-time={base:%Y-%m-%d %H:%M:%S} UTC",
            "--",
            rule,
        ],
        env={"TZ": "UTC", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    normalized = re.search(r"Normalized form: (.*)", answer.stdout)
    found = re.findall(
        r"(?:Next elapse|Iter\. #\d+): \w{3} (\S{10}) (\S{8}) UTC", answer.stdout
    )
    return Vector(
        rule=rule,
        base=base.isoformat(),
        normalized=normalized[1] if normalized else None,
        occurrences=tuple(f"{date}T{time}" for date, time in found),
    )


def make_rule(random: Random) -> str:
    """Return a rule, valid more often than not."""
    parts = []
    if random.random() < 0.3:
        days = ("Mon", "tue", "Wednesday", "Thu", "FRI", "Sat", "Sun")
        items = sorted(random.sample(range(7), random.randint(1, 4)))
        separators = random.choices((",", ".."), (4, 1), k=len(items))
        text = "".join(days[i] + sep for i, sep in zip(items, separators, strict=True))
        parts.append(text.rstrip(",."))
    if random.random() < 0.7:
        sign = random.choices("-~", (4, 1))[0]
        month = _make_field(random, 1, 12)
        # systemd 252 refuses lists of days from the end beyond the 22nd: a bug.
        day = _make_field(random, 1, 31 if sign == "-" else 22)
        year = random.choice(("", "", "*-", f"{_make_field(random, 2005, 2040)}-"))
        parts.append(f"{year}{month}{sign}{day}")
    if random.random() < 0.7:
        hour, minute = _make_field(random, 0, 23), _make_field(random, 0, 59)
        second = random.choice(("", "", f":{_make_field(random, 0, 59)}"))
        parts.append(f"{hour}:{minute}{second}")
    if random.random() < 0.2:
        parts.append(random.choice(("UTC", "utc", *ZONES)))

    return " ".join(parts) or "daily"


def _make_field(random: Random, first: int, last: int) -> str:
    if random.random() < 0.3:
        return "*"
    if first == 0 and random.random() < 0.2:
        # Where a repetition without an end does not fit its field evenly, systemd
        # 252 skips the start of the next hour, day or year at times: not asked.
        return f"0/{random.choice((2, 3, 4, 6, 12))}"

    spans = []
    for _ in range(random.choices((1, 2, 3), (6, 2, 1))[0]):
        start = random.randint(first, last)
        text = str(start) if random.random() < 0.5 else f"{start:02}"
        if random.random() < 0.3:
            low = start if random.random() < 0.95 else first
            text += f"..{random.randint(low, last)}"
            if random.random() < 0.5:
                text += f"/{random.randint(1, max(1, (last - first) // 2))}"
        spans.append(text)

    return ",".join(spans)


def main() -> None:
    """Record the answers to all rules of the file anew."""
    asked = json.loads(VECTORS.read_text("utf-8"))
    vectors = [
        asdict(ask_oracle(each["rule"], datetime.fromisoformat(each["base"])))
        for each in asked
    ]
    lines = ",\n".join(json.dumps(vector) for vector in vectors)
    VECTORS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
