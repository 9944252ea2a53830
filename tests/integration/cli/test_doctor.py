"""``doctor``: it shows what was found, and ends with 1 if something is bad."""

from __future__ import annotations

from actions.lease import Leader
from cli.connection import get_engine
from tests.integration.cli.calling import Answer, Call, Configure
from tests.servers import find_free_port


def list_found(answer: Answer) -> dict[str, str]:
    return {each["subject"]: each["health"] for each in answer.data}


def test_exit_code_is_that_of_the_worst(call: Call):
    """What is only to be looked at does not fail; all are shown to people as well."""
    without = call("doctor", "--json")
    call("tick")
    assert Leader(get_engine()).hold()
    well = call("doctor", "--json")
    call("queues", "pause", "quick")
    paused = call("doctor", "--json")
    told = call("doctor").out

    assert (1, 0, 0) == (without.code, well.code, paused.code)
    bad = {name for name, health in list_found(without).items() if health == "bad"}
    assert ({"leader", "tick"}, {"ok"}) == (bad, set(list_found(well).values()))
    assert "look" == list_found(paused)["queue quick"]
    assert all(f"  {name} " in told for name in list_found(paused))
    assert "gave its last heartbeat" in told


def test_tz_database_alone_is_looked_at(call: Call):
    """With --tzdata, so a missing leader is not bad."""
    answer = call("doctor", "--tzdata", "--json")

    assert (0, {"tzdata": "ok"}) == (answer.code, list_found(answer))


def test_health_of_a_scheduler_needs_its_port(call: Call, configure: Configure):
    """One that does not answer there is bad."""
    without = call("doctor", "--scheduler")
    configure(METRICS_PORT=find_free_port())
    away = call("doctor", "--scheduler", "--json")

    assert 2 == without.code
    assert "MINUTEHAND_METRICS_PORT" in without.err
    assert (1, {"scheduler": "bad"}) == (away.code, list_found(away))
