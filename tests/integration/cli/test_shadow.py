"""Beside celery beat, from the command line: compared, then taken over."""

from __future__ import annotations

from pathlib import Path

from tests.integration.cli.calling import Call, write_action

LOG = """\
[2031-01-06 06:59:00,000: INFO/MainProcess] beat: Starting...
[2031-01-06 07:00:00,003: INFO/MainProcess] Scheduler: Sending due task hello (shop.hi)
[2031-01-06 07:15:00,002: INFO/MainProcess] Scheduler: Sending due task other (shop.hi)
"""


def write_log(folder: Path, text: str = LOG) -> str:
    path = folder / "beat.log"
    path.write_text(text)
    return str(path)


def test_entry_that_agrees_is_taken_over_in_its_gap(
    call: Call, shop: Path, tmp_path: Path
):
    """The gap is a `starts_at`; what beat sends from then on is named."""
    log = write_log(tmp_path)
    post = ("actions", "post", "--app", "shop")
    when = {"cron_rule": "0 7 * * *", "timezone": "UTC"}
    assert 0 == call(*post, write_action(shop, when=when, active=False)).code

    shadow = ("shadow", log, "--app", "shop", "--timezone", "UTC")
    compared = call(*shadow, "--json")

    assert 1 == compared.code
    mine, other = compared.data["entries"]
    assert ("hello", "agrees", 1, []) == (
        *(mine["action"], mine["verdict"], mine["agreed"], mine["differences"]),
    )
    assert ("other", None, "no_action") == (
        *(other["name"], other["action"], other["verdict"]),
    )
    document = write_action(shop, when=when, starts_at=mine["gap"]["since"])
    assert 0 == call(*post, "--replace", document).code

    # Beat's clock is years ahead, so it sends what is taken over already.
    twice = call(*shadow)
    document = write_action(shop, when=when, starts_at="2031-01-06T07:10:00Z")
    assert 0 == call(*post, "--replace", document).code
    taken = call(*shadow)

    assert "beat sent it, and it runs here" in " ".join(twice.out.split())
    assert "0 agrees, 1 differs, 0 not seen yet, 1 no action" in twice.out
    assert "runs here since 2031-01-06 07:10:00Z" in " ".join(taken.out.split())
    assert "1 agrees, 0 differs, 0 not seen yet, 1 no action" in taken.out


def test_mistakes_are_told(call: Call, shop: Path, tmp_path: Path):
    log = write_log(tmp_path)
    shadow = ("shadow", log, "--app", "shop")

    for call_of, words in (
        (("shadow", write_log(shop, "{}"), "--app", "shop"), "no line is of celery"),
        ((*shadow, "--timezone", "Mars"), "--timezone: "),
        ((*shadow, "--timezone", ""), "--timezone: "),
        ((*shadow, "--late", "soon"), "--late: "),
        (("shadow", str(tmp_path / "none"), "--app", "shop"), "none: "),
        (("shadow", log, "--app", "shp"), "Did you mean"),
    ):
        answer = call(*call_of)
        assert (answer.code, "") != (0, answer.err)
        assert words in answer.err
