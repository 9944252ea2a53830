"""What a monitor is asked for each sign, and which addresses are no monitor's."""

from __future__ import annotations

from uuid import UUID

import pytest

from models.errors import RuleError
from models.fields.addresses import PingSign, check_ping, make_ping

RUN = UUID(int=7)
SENTRY = "https://o1.ingest.sentry.io/api/4/cron/nightly/key"


@pytest.mark.parametrize(
    ("address", "sign", "asked"),
    [
        ("https://hc-ping.com/u", PingSign.START, "https://hc-ping.com/u/start?rid="),
        ("https://hc-ping.com/u", PingSign.OK, "https://hc-ping.com/u?rid="),
        ("https://hc-ping.com/u/", PingSign.FAIL, "https://hc-ping.com/u/fail?rid="),
        # a slug, whose check may have to be made
        (
            "https://hc.example/ping/key/db?create=1#x",
            PingSign.START,
            "https://hc.example/ping/key/db/start?create=1&rid=",
        ),
        (SENTRY, PingSign.START, f"{SENTRY}?status=in_progress&check_in_id="),
        (f"{SENTRY}/", PingSign.OK, f"{SENTRY}/?status=ok&check_in_id="),
        (
            "https://sentry.example/api/4/cron/db/key?a=b",
            PingSign.FAIL,
            "https://sentry.example/api/4/cron/db/key?a=b&status=error&check_in_id=",
        ),
    ],
)
def test_each_sign_has_its_form(address: str, sign: PingSign, asked: str):
    """With the id of the run, so that runs that overlap are told apart."""
    assert f"{asked}{RUN}" == make_ping(check_ping(address), sign, RUN)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("hc-ping.com/u", "does not begin with http"),
        ("https://hc-ping.com/", "has no path"),
        ("https://hc-ping.com/secret/start", "has 'start' in it"),
        ("https://hc-ping.com/secret/1", "has '1' in it"),
        (f"{SENTRY}/?status=ok", "has 'status' in it"),
        ("https://hc-ping.com/secret?rid=", "has 'rid' in it"),
        ("https://ann:pass@hc-ping.com/u", "user or password"),
    ],
)
def test_what_a_ping_adds_is_no_part_of_the_address(address: str, said: str):
    """Nor is it repeated beyond its host."""
    with pytest.raises(RuleError) as refusal:
        check_ping(address)

    assert said in str(refusal.value)
    assert "secret" not in str(refusal.value)
