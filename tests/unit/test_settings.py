"""The settings: what is read, what is refused, and that the docs list them."""

from __future__ import annotations

import re
from datetime import time, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from models.errors import UsageError
from settings import (
    PREFIX,
    Settings,
    describe_settings,
    find_collector,
    is_color_wanted,
    read_settings,
)

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"
ROW = re.compile(r"^\| `(?P<name>MINUTEHAND_\w+)` \|(?P<default>[^|]*)\|", re.MULTILINE)

#: Every setting that is a duration.
DURATIONS = [
    name
    for name, field in Settings.model_fields.items()
    if isinstance(field.default, timedelta)
]


def read(**variables: str) -> Settings:
    """Read settings from *variables*, named without prefix, and nothing else."""
    environ = {f"{PREFIX}{name.upper()}": value for name, value in variables.items()}
    return read_settings(environ, env_file=None)


def refuse(**variables: str) -> str:
    """Return why *variables* are refused."""
    with pytest.raises(UsageError) as caught:
        read(**variables)
    return str(caught.value)


def test_docs_list_every_setting() -> None:
    """docs/settings.md has one row for each setting, and none for anything else."""
    documented = [match["name"] for match in ROW.finditer(DOCS.read_text())]

    assert sorted(
        f"{PREFIX}{name.upper()}" for name in Settings.model_fields
    ) == sorted(documented)


def test_docs_tell_the_defaults() -> None:
    """Setting everything to its documented default changes nothing."""
    home = str(Path.home() / ".minutehand")
    documented = {
        match["name"]: match["default"].strip("` ").replace("<home>", home)
        for match in ROW.finditer(DOCS.read_text())
    }

    assert read() == read_settings(documented, env_file=None)


def test_values_are_read_as_what_they_mean() -> None:
    """Durations, times, lists, numbers and switches come out typed."""
    settings = read(
        lookback="PT15M",
        maintenance_at="23:30",
        maintenance_enabled="false",
        webhook_allowed_hosts="Intranet, build.example.org, 10.1.0.0/16, ::1",
        mail_sender='"Reports, daily" <reports@example.org>',
        notice_mail="ann@example.org, bob@example.org,",
        chunk="20",
    )

    assert timedelta(minutes=15) == settings.lookback
    assert time(23, 30) == settings.maintenance_at
    assert settings.maintenance_enabled is False
    hosts = ("intranet", "build.example.org", "10.1.0.0/16", "::1")
    assert hosts == settings.webhook_allowed_hosts
    assert settings.mail_sender == '"Reports, daily" <reports@example.org>'
    assert settings.notice_mail == ("ann@example.org", "bob@example.org")
    assert settings.chunk == 20


def test_all_of_the_embedded_form_is_below_home() -> None:
    """Setting the home alone moves database, mails and workspace."""
    settings = read(home="/data")

    assert settings.database_url == "sqlite:////data/minutehand.sqlite3"
    assert settings.smtp_url == "/data/mails"
    assert Path("/data/workspace") == settings.workspace


def test_relative_folders_are_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change of directory does not move the data."""
    monkeypatch.chdir(tmp_path)

    assert tmp_path / "data" == read(home="data").home


def test_postgresql_gets_the_driver_we_ship() -> None:
    """Each form of the URL means psycopg 3, also one written for psycopg2."""
    schemes = ("postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2")
    for scheme in schemes:
        settings = read(database_url=f"{scheme}://u:p@db/minutehand")

        assert settings.database_url == "postgresql+psycopg://u:p@db/minutehand"


def test_environment_wins_over_the_file(tmp_path: Path) -> None:
    """A variable of the process overrides that of .env; others of the file count."""
    env_file = tmp_path / ".env"
    env_file.write_text("MINUTEHAND_CHUNK=1\nMINUTEHAND_TIMEZONE=Europe/Paris\nX=1\n")

    settings = read_settings({"MINUTEHAND_CHUNK": "2"}, env_file)

    assert settings.chunk == 2
    assert settings.timezone == "Europe/Paris"


def test_home_that_nobody_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has none: also where a secret is, and by default."""
    monkeypatch.setenv("HOME", "~nobody-here")
    given = {"MINUTEHAND_WORKSPACE": "~/x", "MINUTEHAND_WEBHOOK_SECRET_FILE": "~/y"}

    with pytest.raises(UsageError) as told:
        read_settings(given, None)

    said = " is of nobody who has a home here. Write an absolute path."
    assert {
        f"MINUTEHAND_WEBHOOK_SECRET_FILE: '~/y'{said}",
        f"MINUTEHAND_HOME: its default ~/.minutehand{said}",
        f"MINUTEHAND_WORKSPACE: '~/x'{said}",
    } == {*str(told.value).splitlines()}


def test_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text("MINUTEHAND_CHUNK=7", encoding="utf-16")

    with pytest.raises(UsageError, match=r"\.env cannot be read: it is not text"):
        read_settings({}, env_file)


def test_empty_variables_count_as_unset() -> None:
    """A compose file may pass on a variable that nobody set."""
    assert read() == read(metrics_port="", timezone=" ")


def test_variables_of_the_tests_are_no_settings() -> None:
    """MINUTEHAND_TEST_... is left to the test suite."""
    assert read() == read(test_database_url="postgresql://x")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("MINUTEHAND_LEASE_TLL", "MINUTEHAND_LEASE_TTL"),
        ("MINUTEHAND_DATABASEURL", "MINUTEHAND_DATABASE_URL"),
        ("minutehand_home", "MINUTEHAND_HOME"),
    ],
)
def test_unknown_variables_are_refused_with_the_nearest(
    name: str, suggestion: str
) -> None:
    """A misspelt setting stops the start instead of being ignored."""
    with pytest.raises(
        UsageError, match=f"{name} is not a setting. Did you mean {suggestion}"
    ):
        read_settings({name: "1"}, env_file=None)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("lease_ttl", "61", "not an ISO 8601 duration"),
        ("retention", "P1M", "has months or years"),
        ("lookback", "PT0S", "is zero"),
        ("lookback", "PT30S", "Write at least PT1M"),
        ("retention", "PT1H", "Write at least P1D"),
        ("timezone", "Paris", "Europe/Paris"),
        ("maintenance_at", "4", "Write HH:MM"),
        ("maintenance_at", "24:00", "Write HH:MM"),
        ("database_url", "mysql://h/d", "Write postgresql://"),
        ("broker_url", "filesystem://", "loses or never deletes messages"),
        ("broker_url", "sqla+sqlite:///x", "loses or never deletes messages"),
        ("broker_url", "localhost", "Write redis://"),
        ("smtp_url", "http://mail", "Write smtp://"),
        ("smtp_url", "mail:25", "Write smtp://"),
        ("smtp_url", "mail.example.org", "Write smtp://"),
        ("smtp_url", "smtp:/mail", "Write smtp://"),
        ("workspace", "s3://bucket/versions", "is no folder. Write"),
        ("database_url", "sqlite:///", "names no file. Write postgresql://"),
        ("database_url", "sqlite:///:memory:", "names no file"),
        ("mail_sender", "nobody", "Write an address such as"),
        ("mail_sender", "a@x.example,b@x.example", "is not a mail address"),
        ("mail_sender", "Acme [prod] <a@x.example>", "Put the name into quotes"),
        ("mail_sender", "Reports; daily <a@x.example>", "Put the name into quotes"),
        ("mail_sender", "Shop: daily <a@x.example>", "Put the name into quotes"),
        ("mail_sender", "a@x.example\nBcc: b@x.example", "has a line break"),
        ("mail_sender", "ä@x.example", "not every mail server accepts"),
        ("mail_sender_hosts", "*.x.example", "is not a host name"),
        ("webhook_allowed_hosts", "10.0.0.0/99", "Write host names, addresses and"),
        ("webhook_allowed_hosts", "10.0.0.7/8", "has host bits set"),
        ("webhook_allowed_hosts", "300.1.1.1", "names what cannot be a host"),
        ("webhook_allowed_hosts", "http://hooks", "names what cannot be a host"),
        ("source_allowed_hosts", "hooks:8080", "names what cannot be a host"),
        ("source_allowed_hosts", "*.internal", "names what cannot be a host"),
        ("metrics_apps", "shop;crm", "is not a uid"),
        ("actor", "ada\nroot", "has a line break"),
        ("database_url", "postgresql://db:x/name", "port that cannot be read"),
        ("database_url", "postgresql://db:1,db:2/name", "name?host=one,two&port=5432,"),
        ("broker_url", "redis://redis:x/0", "port that cannot be read"),
        ("broker_url", "redis://redis:70000/0", "port that cannot be read"),
        ("broker_url", "redis://[::1/0", "host or port that cannot be read"),
        ("broker_url", "amqp://a;amqp://b:x", "port that cannot be read"),
        ("broker_url", "redis://redis:6379/main", "database that is not a number"),
        ("broker_url", "redis://a;redis://b", "do not share their messages"),
        ("broker_url", "sentinel://a:26379", "is a Redis Sentinel"),
        ("broker_url", "sentinel://a;sentinel://b", "is a Redis Sentinel"),
        ("broker_url", "redis+sentinel://a", "proxy"),
        ("broker_url", "redis+cluster://a:7000", "is not a broker that"),
        ("broker_url", "redis+socket://redis.sock", "no absolute path"),
        ("broker_url", "redis+socket:///run/redis.sock?db=1", "'db'"),
        ("broker_url", "redis+socket:///r.sock?virtual_host=x", "is not a number"),
        ("broker_url", "redis://redis/0?db=1", "'db' after the path, where only cred"),
        ("broker_url", "rediss://redis/0?ssl_cert_reqs=off", "Write one of: required,"),
        ("broker_url", "amqps://rabbit//?ssl_ca_certs=/a", "where only login_method"),
        ("broker_url", "amqp://rabbit//?heartbeat=9", "path, where only login_method"),
        ("broker_url", "amqp://rabbit//?ssl=true", "out; for TLS write amqps://"),
        ("task_queue", "minutehand.quick", "Minutehand's own workers"),
        ("smtp_url", "smtp://mail:x", "port that cannot be read"),
        ("smtp_url", "smtp://:587", "names no server"),
        ("smtp_url", "smtp://mail/?tls=no", "more than a server and its port"),
        ("database_url", "sqlite:////data/m.db?mode=ro", "more than the path of"),
        ("database_url", "sqlite://data/m.db", "more than the path of a file"),
        ("app_bounds", '{"Shop!": {"actions": 1}}', "'Shop!' is not the uid"),
        ("web_url", "https://m.example/?a=1", "has a query"),
        ("web_url", "https://m.example/#a", "has a query"),
        ("log_level", "loud", "Write one of: debug, info, warning, error."),
        ("log_level", "inf", "Did you mean 'info'?"),
        ("metrics_port", "70000", "is too large. Write at most 65535."),
        ("metrics_port", "http", "is not a whole number. Write one such as 9464."),
        ("chunk", "0", "is too small. Write at least 1."),
        ("chunk", "abc", "is not a whole number. Write one such as 1000."),
        ("chunk", "9" * 5000, "is not a whole number. Write one such as 1000."),
        ("app_share", "half", "is not a number. Write one such as 0.5."),
        ("app_share", "0", "is too small. Write more than 0."),
        ("source_max_bytes", "4 foo", "is not a size."),
        ("source_max_bytes", "much", "or one such as 2GiB."),
        ("notice_webhook", "https://events.pagerduty.com", "routing_key=KEY"),
        ("actor", "a" * 201, "is too long. Write at most 200 characters."),
        ("maintenance_enabled", "maybe", "is neither true nor false."),
        ("web_proxies", "10.0.0.7/8", "has host bits set"),
        ("web_proxies", "proxy", "Write addresses and networks: 10.0.0.7, "),
        ("web_proxy_header", "X Forwarded: User", "is not the name of a header"),
        ("web_proxy_header", "X-Forwarded-User", "WEB_PROXIES lists none"),
        ("oidc_issuer", "login.example.com", "does not begin with http"),
        ("oidc_issuer", "http://login.example.com", "is not an address of https"),
        ("oidc_issuer", "http://localhost.example.com", "is not an address of https"),
        ("oidc_issuer", "https://login.example.com", "without MINUTEHAND_OIDC_CLIENT"),
        ("oidc_groups", '{"ops": {"*": "admin"}}', "without MINUTEHAND_OIDC_ISSUER"),
        ("oidc_groups", '{"ops": "admin"}', "has something else at 'ops' than it may"),
        ("oidc_groups", '{"ops": {"*": "boss"}}', "has something else at 'ops.*'"),
        ("oidc_groups", "[]", "than it may"),
        ("oidc_groups", '{"ops": {"": "admin"}}', "'' is not the uid of a small app"),
        ("oidc_issuer", "https://login.example.com?a=b", "has a query"),
        ("oidc_scopes", "email,profile", "Write them with spaces between: openid"),
        ("oidc_groups", "ops", "is not JSON"),
        ("web_proxy_role", "boss", "Write one of: viewer, operator, editor, admin."),
    ],
)
def test_invalid_values_are_refused_with_name_value_and_way_out(
    field: str, value: str, reason: str
) -> None:
    """Whoever reads the message knows what to change, and to what."""
    message = refuse(**{field: value})

    assert message.startswith(f"{PREFIX}{field.upper()}: ")
    assert repr(value.partition("?")[0]) in message
    assert reason in message


@pytest.mark.parametrize("value", ["abc", "0 days", "7 months", "P400000D"])
@pytest.mark.parametrize("field", DURATIONS)
def test_durations_that_hints_name_are_accepted(field: str, value: str) -> None:
    """What a message says to write instead of a duration is a value of that setting."""
    (advised,) = re.findall(r"\b(P[0-9T]\w*)\.$", refuse(**{field: value}))

    assert timedelta() < getattr(read(**{field: advised}), field)


@pytest.mark.parametrize("lease", ["lease_ttl", "operation_lease"])
def test_lease_of_a_moment_is_refused_with_one_that_lasts(lease: str) -> None:
    """No heartbeat is short enough for it, so none is advised."""
    (advised,) = re.findall(r"\b(PT\w*)\.$", refuse(**{lease: "PT2S"}))

    assert timedelta(seconds=60) == getattr(read(**{lease: advised}), lease)


@pytest.mark.parametrize(
    ("variables", "blamed"),
    [
        ({"lease_ttl": "PT20S"}, "LEASE_HEARTBEAT: its default PT10S"),
        ({"notice_mail": "ann@example.org,bob"}, "NOTICE_MAIL: 'ann@example.org,bob'"),
        ({"notice_webhook": "example.org"}, "NOTICE_WEBHOOK: 'example.org' does not"),
        ({"operation_heartbeat": "PT21S"}, "OPERATION_HEARTBEAT: 'PT21S'"),
        ({"database_timeout": "PT60S"}, "DATABASE_TIMEOUT: 'PT60S'"),
        ({"broker_timeout": "PT2M"}, "BROKER_TIMEOUT: 'PT2M'"),
        ({"quick_soft_limit": "PT6M"}, "QUICK_SOFT_LIMIT: 'PT6M'"),
        ({"heavy_hard_limit": "PT1H"}, "HEAVY_SOFT_LIMIT: its default PT2H"),
        ({"lookback": "P40D"}, "RETENTION: its default P30D"),
    ],
)
def test_values_that_defeat_each_other_are_refused(
    variables: dict[str, str], blamed: str
) -> None:
    """The message names the one to change, even if it is a default."""
    assert refuse(**variables).startswith(f"{PREFIX}{blamed} ")


def test_all_mistakes_are_told_at_once() -> None:
    """Nobody corrects five settings in five starts."""
    message = refuse(chunk="x", timezone="Nowhere", home_dir="/", lease_ttl="1")

    assert len(message.splitlines()) == 4


def test_secrets_are_masked() -> None:
    """A printed Settings gives no password away."""
    settings = read(
        broker_url="redis://:hunter2@db/0",
        webhook_secret="hunter2",
        task_connections="a=redis://:hunter2@b",
        notice_webhook="https://h.example/T0/hunter2",
    )

    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("database_url", "mysql://admin:hunter2@db/x", "'mysql://db/x'"),
        ("database_url", "mysql://db/x?password=hunter2", "'mysql://db/x'"),
        ("database_url", "postgresql:/u:hunter2@db/x", "'db/x'"),
        ("broker_url", "redis://:a?hunter2@redis/0", "'redis://...'"),
        ("broker_url", "redis://:1?hunter2@redis/0", "? as %3F"),
        ("smtp_url", "smtp://u:1#hunter2@mail", "# as %23"),
        ("webhook_secret", "whsec_hunter2*", "its value is not base64 after whsec_"),
        ("webhook_secret", "whsec_", "its value is not base64 after whsec_"),
        # The library takes what precedes the slash for a port.
        ("broker_url", "redis://:hunter2/2@redis:6379/0", "'redis://redis:6379/0'"),
        ("broker_url", "redis://:hunter2/2@redis:6379/0", "/ as %2F"),
        ("smtp_url", "http://mail?password=hunter2", "'http://mail'"),
        ("notice_webhook", "ftp://h.example/T0/hunter2", "'ftp://h.example/...' does"),
    ],
)
def test_refused_addresses_are_shown_without_secrets(
    field: str, value: str, shown: str
) -> None:
    """Wherever the password is, and whoever quotes the address."""
    message = refuse(**{field: value})

    assert shown in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("database_url", "postgresql+psycopg://u:a/b?c#d@db:5432/name?sslmode=require"),
        ("database_url", "postgresql+psycopg:///name?host=/var/run/postgresql"),
        ("broker_url", "redis://u:a%2Fb@[::1]:6379"),
        ("broker_url", "redis://redis:6379//"),
        ("broker_url", "rediss://redis/1?ssl_cert_reqs=required"),
        ("broker_url", "amqp://u:p@one//;amqp://u:p@two//"),
        ("broker_url", "redis+socket://u:p@/run/redis.sock?virtual_host=1"),
        ("smtp_url", "smtps://u:a%2Fb@mail:465"),
    ],
)
def test_addresses_that_can_be_read_stay_as_they_are(field: str, value: str) -> None:
    """Whatever of it is optional, and in each of the forms that the library takes."""
    assert value == getattr(read(**{field: value}), field)


@pytest.mark.parametrize(
    ("url", "read_as"),
    [("valkey://:p@a:6379/0", "redis://:p@a:6379/0"), ("valkeys://a", "rediss://a")],
)
def test_valkey_is_called_as_redis(url: str, read_as: str) -> None:
    """It speaks the same protocol; the library knows one of the two names."""
    assert read_as == read(broker_url=url).broker_url


@pytest.mark.parametrize("separator", [",", ", ", " ", "\n"])
def test_connections_are_read_by_name(separator: str) -> None:
    """In one line of a .env file, or on several of a compose file."""
    shop, crm = "redis://:a,b@shop/1", "amqp://u:p@one//;amqp://u:p@two//"
    settings = read(task_connections=f"shop={shop}{separator}crm={crm}")

    assert {"shop": shop, "crm": crm} == settings.task_connections


#: Of connections whose rules and results are told.
SHOP = {"task_connections": "shop=sentinel://a:26379;sentinel://b:26379"}


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        *(
            ("task_connections", value, reason)
            for value, reason in (
                ("redis://:hunter2@shop/1", "NAME=URL"),
                ("shop:redis://:hunter2@shop/1", "NAME=URL"),
                ("shop=hunter2", "NAME=URL"),
                ("shop=redis://:hunter2@a,shop=redis://b", "'shop' twice"),
                ("shop=redis://:hunter2@shop/x", "'shop' that has a database"),
                (
                    "shop=redis+sentinel://:hunter2@shop",
                    "'shop' that is a Redis Sentinel",
                ),
                ("shop=sentinel://:hunter2@a;sentinel://", "'shop' that names no"),
                ("shop=sentinel://:hunter2@a", "'shop', without the name of their"),
                ("shop=sentinel://:hunter2@a?sll=1", "'shop' that has 'sll' after"),
                ("shop=sentinel://a:1,sentinel://b:1", "sentinel://host:26379;"),
                ("a=redis://a,shop=memory://hunter2", "'shop' to memory://"),
            )
        ),
        ("task_rules", "hunter2", "is not JSON"),
        ("task_rules", '{"crm": {}}', "'crm', which is no connection"),
        ("task_rules", '{"shop": {"apps": "hunter2"}}', "'shop.apps'"),
        ("task_rules", '{"shop": {"app": ["hunter2"]}}', "'shop.app'"),
        ("task_results", "amqp://:hunter2@r//", "that is no Redis"),
        ("task_results", "shop=amqp://:hunter2@r//", "'shop' that is no Redis"),
        ("task_results", "crm=redis://:hunter2@r/1", "'crm', which is no connection"),
        ("task_results", "hunter2", "NAME=URL"),
    ],
)
def test_connections_that_cannot_be_read_are_refused(
    field: str, value: str, reason: str
) -> None:
    """The one that is wrong is named, and no part of any URL is shown."""
    message = refuse(**{**SHOP, field: value})

    assert reason in message
    assert "hunter2" not in message


def test_rules_are_those_of_a_connection() -> None:
    """Or of our own broker, which has no name; nothing of the options is shown."""
    options = '{"master_name": "main", "sentinel_kwargs": {"password": "hunter2"}}'
    given = (
        f'{{"shop": {{"apps": ["shop"], "transport_options": {options}}},'
        ' "": {"queues": ["reports"]}}'
    )
    settings = read(**SHOP, task_rules=given)

    rules = settings.make_task_rules().by_connection
    assert rules[None].queues == ["reports"]
    assert rules["shop"].master == "main"
    assert "hunter2" not in repr(settings)


def test_results_are_those_of_a_connection_on_redis() -> None:
    """Or of our own broker, which has no name; nothing of a URL is shown."""
    given = "redis://r/1 shop=redis://:hunter2@r/2"
    settings = read(task_connections="shop=amqp://a:b@shop//", task_results=given)

    assert {"": "redis://r/1", "shop": "redis://:hunter2@r/2"} == settings.task_results
    assert "hunter2" not in repr(settings)


def test_settings_of_code_ignore_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``Settings(...)`` in a test does not depend on who runs it."""
    monkeypatch.setenv("MINUTEHAND_CHUNK", "7")

    assert read().chunk == Settings(timezone="UTC").chunk


#: Each setting that is a secret, or may hold one, and a value of it.
SECRETS = {
    "database_url": "postgresql+psycopg://u:hidden@db/name",
    "broker_url": "redis://:hidden@redis:6379/0",
    "smtp_url": "smtp://u:hidden@mail:587",
    "webhook_secret": "hidden",
    "oidc_client_secret": "hidden",
}


@pytest.mark.parametrize("field", SECRETS)
def test_secret_may_be_in_a_file(field: str, tmp_path: Path) -> None:
    """The end of its last line is no part of it."""
    path = tmp_path / "secret"
    path.write_text(f"{SECRETS[field]}\n")

    settings = read_settings({f"MINUTEHAND_{field.upper()}_FILE": str(path)}, None)

    value = getattr(settings, field)
    plain = value.get_secret_value() if isinstance(value, SecretStr) else value
    assert SECRETS[field] == plain
    assert "hidden" not in repr(settings)


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), (b"\n", "empty"), (b"\xff", "text")]
)
def test_file_without_a_secret_is_refused(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    """The message names the variable and the path."""
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(UsageError, match=reason) as told:
        read_settings({"MINUTEHAND_BROKER_URL_FILE": str(path)}, None)

    assert f"MINUTEHAND_BROKER_URL_FILE: '{path}'" in str(told.value)


def test_secret_and_its_file_together_are_refused(tmp_path: Path) -> None:
    """Nobody could tell which of them counts."""
    path = tmp_path / "secret"
    path.write_text("redis://b")
    environ = {
        "MINUTEHAND_BROKER_URL": "redis://a",
        "MINUTEHAND_BROKER_URL_FILE": str(path),
    }

    with pytest.raises(UsageError, match=r"_URL and MINUTEHAND_BROKER_URL_FILE are"):
        read_settings(environ, None)


def test_wrong_secret_in_a_file_is_told_without_its_password(tmp_path: Path) -> None:
    """By the name of the variable that was set."""
    path = tmp_path / "secret"
    path.write_text("mysql://admin:hidden@db/x")

    with pytest.raises(UsageError) as told:
        read_settings({"MINUTEHAND_DATABASE_URL_FILE": str(path)}, None)

    assert str(told.value).startswith("MINUTEHAND_DATABASE_URL_FILE: 'mysql://db/x' ")
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize("name", ["CHUNK_FILE", "BROKER_FILE", "Broker_url_file"])
def test_file_of_what_is_no_secret_is_unknown(name: str) -> None:
    """As any other variable that is not listed."""
    with pytest.raises(UsageError, match=f"MINUTEHAND_{name} is not a setting"):
        read_settings({f"MINUTEHAND_{name}": "x"}, None)


def test_no_color_is_respected():
    """Any NO_COLOR but an empty one turns colours off, as no-color.org has it."""
    assert [True, True, False] == [
        is_color_wanted({}),
        is_color_wanted({"NO_COLOR": ""}),
        is_color_wanted({"NO_COLOR": "1"}),
    ]


@pytest.mark.parametrize(
    ("given", "prefix"),
    [("", "minutehand"), ("none", ""), ("team-a.jobs", "team-a.jobs"), ("a", "a")],
)
def test_queue_prefix_is_a_name_or_none(given: str, prefix: str):
    """An empty variable counts as unset, as ever; a word asks for bare names."""
    assert prefix == read(queue_prefix=given).queue_prefix


@pytest.mark.parametrize("given", ["celery", "celeryev", "a b", "Jobs", ".a", "a" * 65])
def test_queue_prefix_that_is_not_ours_to_take_is_refused(given: str):
    """Remote control of a whole vhost listens to the name celery."""
    assert re.match("MINUTEHAND_QUEUE_PREFIX: .* Write ", refuse(queue_prefix=given))


def test_connections_are_never_shown() -> None:
    """Neither by a message about them nor by the settings themselves."""
    text = '{"erp": {"url": "postgresql://reader:hunter2@db/erp", "apps": ["shop"]}}'
    settings = read(sql_connections=text)
    message = refuse(sql_connections=text.replace("postgresql", "mysql"))

    assert settings.sql_connections["erp"].serves("shop")
    assert "MINUTEHAND_SQL_CONNECTIONS: its value has a connection 'erp'" in message
    assert "hunter2" not in message + repr(settings) + str(settings.model_dump())


@pytest.mark.parametrize(
    ("database", "connection"),
    [
        ("postgresql://a:b@db/minutehand", "postgresql://c:d@db:5432/minutehand"),
        ("postgresql://127.0.0.1/minutehand", "postgresql://localhost/minutehand"),
        ("sqlite:////tmp/x/m.sqlite3", "sqlite:////tmp/x/../x/m.sqlite3"),
    ],
)
def test_own_database_is_no_connection(database: str, connection: str) -> None:
    """The start is refused; what it cannot see is refused by the worker."""
    text = f'{{"erp": {{"url": "{connection}", "apps": ["*"]}}}}'

    message = refuse(database_url=database, sql_connections=text)

    assert "connection 'erp' to Minutehand's own database" in message


def test_own_role_is_no_connection() -> None:
    """On another database of the same server, its queries could end our sessions."""
    text = '{"erp": {"url": "postgresql://minutehand:x@db:5432/erp", "apps": ["shop"]}}'
    message = refuse(
        database_url="postgresql://minutehand:y@db/minutehand", sql_connections=text
    )

    assert "connection 'erp' as Minutehand's own role" in message
    read(database_url="postgresql://we@db/minutehand", sql_connections=text)


def test_sizes_have_units() -> None:
    """As people write them; what is too little to start with is refused."""
    assert 3 << 20 == read(source_max_bytes="3MiB").source_max_bytes
    assert "MINUTEHAND_SOURCE_MAX_MEMORY: '1MiB'" in refuse(source_max_memory="1MiB")


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("broker_url", "redis://user:hunter2@redis:6379/0", "redis://redis:6379/0"),
        ("database_url", "postgresql://a:hunter2@db/m", "postgresql+psycopg://db/m"),
        ("webhook_secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "set"),
        ("notice_webhook", "https://h.example/T0/hunter2", "https://h.example/..."),
        ("task_connections", "erp=redis://:hunter2@h/0", "erp"),
        ("keep_mails", "false", "false"),
        ("retention", "P9D", "P9D"),
    ],
)
def test_settings_are_shown_without_secrets(name: str, given: str, shown: str) -> None:
    """Neither who signs in at a server nor the path of a webhook."""
    settings = read(**{name: given})

    assert (shown, "environment") == describe_settings(settings)[
        f"MINUTEHAND_{name.upper()}"
    ]


def test_settings_tell_where_they_are_from(tmp_path: Path) -> None:
    """The environment wins over the file .env; a secret may be in a file of its own."""
    (tmp_path / ".env").write_text(
        "MINUTEHAND_TIMEZONE=Asia/Tokyo\nMINUTEHAND_LOG_LEVEL=debug\n"
    )
    (tmp_path / "broker").write_text("redis://h/0")
    given = {
        "MINUTEHAND_TIMEZONE": "Europe/Paris",
        "MINUTEHAND_BROKER_URL_FILE": str(tmp_path / "broker"),
    }
    found = describe_settings(read_settings(given, tmp_path / ".env"))

    assert ("Europe/Paris", "environment") == found["MINUTEHAND_TIMEZONE"]
    assert ("debug", ".env") == found["MINUTEHAND_LOG_LEVEL"]
    assert ("redis://h/0", "file") == found["MINUTEHAND_BROKER_URL"]
    assert ("PT1M", "default") == found["MINUTEHAND_LEASE_TTL"]
    assert ("not set", "default") == found["MINUTEHAND_WEBHOOK_SECRET"]


_ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("given", "protocol"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, None),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318"}, None),
        (_ENDPOINT, ""),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318"}, ""),
        ({**_ENDPOINT, "OTEL_SDK_DISABLED": "True"}, None),
        ({**_ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({**_ENDPOINT, "OTEL_METRICS_EXPORTER": "none"}, ""),
        ({**_ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        ({**_ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "grpc"),
    ],
)
def test_collector_is_named_by_opentelemetrys_own_variables(
    given: dict[str, str], protocol: str | None
) -> None:
    """Nothing else turns traces on."""
    assert find_collector("TRACES", given) == protocol
