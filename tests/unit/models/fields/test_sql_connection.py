"""Databases that operators let small apps query: how they are written and compared."""

from __future__ import annotations

import pytest

from models.errors import RuleError
from models.fields.sql_connection import find_databases, read_sql_connections


@pytest.mark.parametrize(
    "scheme", ["postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2"]
)
def test_connections_are_read_by_name(scheme: str):
    """With the apps that may use each; the driver is ours, whatever was written."""
    read = read_sql_connections(
        f'{{"erp": {{"url": "{scheme}://a:b@c/d", "apps": ["shop"]}},'
        ' "all": {"url": "sqlite:////x.db", "apps": ["*"]}}'
    )

    assert "postgresql://a:b@c/d" == read["erp"].url.get_secret_value()
    assert (True, False) == (read["erp"].serves("shop"), read["erp"].serves("other"))
    assert read["all"].serves("other")
    assert "a:b" not in repr(read)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", "not a JSON object"),
        ('{"a b": {}}', "cannot name"),
        ('{"erp": "postgresql://a:hunter2@b/c"}', "not an object"),
        ('{"erp": {"url": "postgresql://a:hunter2@b/c"}}', "'url' and 'apps'"),
        ('{"erp": {"url": "postgresql://hunter2@b/c", "apps": "shop"}}', "not a list"),
        ('{"erp": {"url": "postgresql://hunter2@b/c", "apps": ["a b"]}}', "not a list"),
        ('{"erp": {"url": "mysql://a:hunter2@b/c", "apps": []}}', "not a database"),
        ('{"erp": {"url": "sqlite:///relative.db", "apps": []}}', "not a database"),
        ('{"erp": {"url": "postgresql://hunter2@b:x/", "apps": []}}', "not a database"),
        ('{"erp": {"url": 7, "apps": []}}', "not a database"),
    ],
)
def test_bad_connections_are_refused_without_their_passwords(text: str, reason: str):
    """What was meant is said, never what was written."""
    with pytest.raises(RuleError, match=reason) as caught:
        read_sql_connections(text)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "other",
    [
        "postgresql://localhost/minutehand",
        "postgresql://other:pw@127.0.0.1:5432/minutehand",
        "postgresql://[::1]/minutehand",
        "postgresql:///minutehand",
        "postgresql:///minutehand?host=/var/run/postgresql",
        "postgresql:///?host=LOCALHOST&dbname=minutehand&port=5432",
        "postgresql://minutehand@localhost",
        "postgresql://elsewhere,localhost:5432/minutehand",
        "postgresql://localhost./minute%68and",
    ],
)
def test_spellings_of_one_database_are_found_equal(other: str):
    """Hosts, default ports, sockets, parameters and escapes."""
    ours = find_databases("postgresql+psycopg://minutehand:x@localhost:5432/minutehand")

    assert ours & find_databases(other)


@pytest.mark.parametrize(
    "other", ["postgresql://localhost/erp", "postgresql://localhost:5433/minutehand"]
)
def test_other_databases_are_others(other: str):
    """Of the same server, or of another on the same host."""
    assert not find_databases("postgresql://localhost/minutehand") & find_databases(
        other
    )
