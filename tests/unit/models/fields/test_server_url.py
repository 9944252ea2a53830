"""Addresses of databases, brokers and mail servers, without what signs in there."""

from __future__ import annotations

import pytest

from models.fields.server_url import hide_sign_in


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://redis:6379/0", "redis://redis:6379/0"),
        ("redis://ada:hunter2@redis:6379/0", "redis://redis:6379/0"),
        ("redis://:hunter2@redis/0?a=b", "redis://redis/0"),
        ("postgresql://db/m?user=ada&password=hunter2", "postgresql://db/m"),
        ("sqlite:////data/m.sqlite3", "sqlite:////data/m.sqlite3"),
        # passwords that should have been escaped
        ("redis://:hunter/2@redis/0", "redis://redis/0"),
        ("redis://:hun@ter2@redis/0", "redis://redis/0"),
        ("redis://:hun?ter2@redis/0", "redis://..."),
        ("redis://:hun@ter?2@redis/0", "redis://..."),
        ("postgresql://u@db/m?password=hunter@2", "postgresql://..."),
        # what is no address
        ("localhost", "localhost"),
        ("redis:/:hunter2@redis/0", "redis/0"),
        ("db/m?password=hunter2", "db/m"),
    ],
)
def test_place_of_a_server_is_shown_alone(url: str, shown: str):
    """User, password and parameters stay hidden, wherever the password may end."""
    assert shown == hide_sign_in(url)
