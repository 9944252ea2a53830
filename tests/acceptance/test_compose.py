"""
docker-compose.yml: that it is valid, and that its services do what they should.

No container engine is needed: each service's own command and health check run as
processes against real servers, with the environment that compose would give them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema
import psycopg
import pytest
import sqlalchemy as sa
import yaml

from actions.small_apps.apply import ApplyTerms, apply_small_app
from dispatch.manual_runs import run_now
from models.database.engine import make_engine
from models.door.app_documents import read_small_app
from settings import PREFIX, Settings, read_settings
from tests.chaos.servers import find_postgres_programs, run_postgres, run_redis
from tests.database import write_by
from tests.scheduling import SELDOM, add_app, get, post
from tests.servers import ROOT, find_free_port, run_to_end, run_warm, wait_until

WORKERS = ("worker-quick", "worker-heavy")
LASTING = ("scheduler", *WORKERS, "web")
OURS = ("migrate", *LASTING)
BIN = Path(sys.executable).parent

#: How programs of ours begin that need not load all that they need.
AS_MODULES = {
    "python": (sys.executable,),
    "celery": (sys.executable, "-m", "celery"),
    "minutehand": (sys.executable, "-m", "cli.main"),
}

Service = dict[str, Any]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """Give docker-compose.yml with its anchors resolved."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


@pytest.fixture(scope="module")
def valkey(compose: dict[str, Any]) -> dict[str, Any]:
    """Give it with Valkey in the place of Redis, merged as compose merges files."""
    text = (ROOT / "deploy/compose.valkey.yml").read_text()
    services = {**compose["services"]}
    for name, changes in yaml.safe_load(text)["services"].items():
        check = {**services[name]["healthcheck"], **changes.pop("healthcheck")}
        services[name] = {**services[name], **changes, "healthcheck": check}
    return {**compose, "services": services}


def interpolate(text: str) -> str:
    """Fill in ``${NAME:-default}`` as compose does when no variable is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text).replace("$$", "$")


def environment_of(service: Service) -> dict[str, str]:
    """Return what compose puts into a container when no variable is set."""
    return {name: interpolate(str(v)) for name, v in service["environment"].items()}


def test_compose_file_fits_the_specification(
    compose: dict[str, Any], valkey: dict[str, Any]
) -> None:
    """The file is valid by the schema of the Compose specification; Valkey, too."""
    schema = files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    validator = jsonschema.Draft7Validator(json.loads(schema.read_text()))

    for document in (compose, valkey):
        assert [error.message for error in validator.iter_errors(document)] == []


def test_valkey_is_started_as_redis_is(
    compose: dict[str, Any], valkey: dict[str, Any]
) -> None:
    """The same options and bounds; only the programs and the image are others."""
    redis, other = (each["services"]["redis"] for each in (compose, valkey))

    assert ["valkey-server", *redis["command"][1:]] == other["command"]
    assert other["healthcheck"]["test"] == [
        each.replace("redis-cli", "valkey-cli") for each in redis["healthcheck"]["test"]
    ]
    differing = {name for name in redis if redis[name] != other[name]}
    assert differing == {"image", "command", "healthcheck"}


def test_images_of_others_can_be_pinned(
    compose: dict[str, Any], valkey: dict[str, Any]
) -> None:
    """Each is named by a variable, and has a version unless that is set."""
    for document in (compose, valkey):
        for name, service in document["services"].items():
            image = service["image"]
            pattern = r"\$\{MINUTEHAND_\w+_IMAGE:-[\w/]+:\d+-\w+\}"
            assert name in OURS or re.fullmatch(pattern, image), image


def test_each_process_is_a_service(compose: dict[str, Any]) -> None:
    """Beside database and broker; whoever wants a port to the world asks for it."""
    services = compose["services"]

    assert set(services) == {"postgres", "redis", *OURS}
    assert [name for name, service in services.items() if "ports" in service] == []


def test_services_that_last_are_watched_and_restarted(compose: dict[str, Any]) -> None:
    """Each has a health check, a time to stop in, and comes back, as many as wanted."""
    for name in (*LASTING, "postgres", "redis"):
        service = compose["services"][name]

        assert service["healthcheck"]["test"], name
        assert service["stop_grace_period"], name
        assert service["restart"] == "unless-stopped", name
        assert "container_name" not in service, name


def test_schema_is_migrated_before_anything_runs(compose: dict[str, Any]) -> None:
    """A process never meets a schema that is not its version's."""
    migrated = {"condition": "service_completed_successfully"}
    for name in LASTING:
        assert compose["services"][name]["depends_on"]["migrate"] == migrated, name


def test_volumes_are_declared(compose: dict[str, Any]) -> None:
    """No data lands in a volume without a name."""
    used = {
        volume.partition(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
    }

    assert set(compose["volumes"]) == used


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the secrets that the documented command makes."""
    folder = tmp_path_factory.mktemp("compose") / "secrets"
    subprocess.run(["sh", ROOT / "deploy" / "make-secrets.sh", folder], check=True)
    return folder


def mount(environ: dict[str, str], secrets: Path) -> dict[str, str]:
    return {
        name: value.replace("/run/secrets", str(secrets))
        for name, value in environ.items()
    }


@pytest.mark.parametrize("name", OURS)
def test_settings_of_a_service_are_accepted(
    compose: dict[str, Any], secrets: Path, name: str
) -> None:
    """Every variable is a setting, with a value that can be right."""
    environ = mount(environment_of(compose["services"][name]), secrets)
    settings = read_settings(environ, env_file=None)
    fields = {f"{PREFIX}{field.upper()}" for field in Settings.model_fields}

    assert settings.database_url.startswith("postgresql+psycopg://minutehand:")
    assert re.fullmatch(r"redis://:[0-9a-f]{48}@redis:6379/0", settings.broker_url)
    assert settings.smtp_url == "/data/mails"
    assert settings.webhook_secret is not None
    assert fields >= {each.removesuffix("_FILE") for each in environ}


def test_secrets_are_made_once(secrets: Path) -> None:
    """The command changes none that is there, and keeps other users of the host out."""
    before = {path.name: path.read_text() for path in secrets.iterdir()}

    subprocess.run(["sh", ROOT / "deploy" / "make-secrets.sh", secrets], check=True)

    assert before == {path.name: path.read_text() for path in secrets.iterdir()}
    assert secrets.stat().st_mode & 0o777 == 0o700


def test_secrets_are_files_that_the_command_makes(
    compose: dict[str, Any], secrets: Path
) -> None:
    """No password has a default, or is in the environment or on a command line."""
    declared = {name: each["file"] for name, each in compose["secrets"].items()}
    used = {
        name
        for service in compose["services"].values()
        for name in service.get("secrets", ())
    }
    text = (ROOT / "docker-compose.yml").read_text()

    assert declared == {path.name: f"secrets/{path.name}" for path in secrets.iterdir()}
    assert used == set(declared)
    assert not re.search(r"password\S*:-|PASSWORD: ", text, re.IGNORECASE)


def test_containers_have_no_more_rights_than_they_need(compose: dict[str, Any]) -> None:
    """No root filesystem to write to, no capabilities; bounds on what they take."""
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert service["logging"]["options"]["max-size"], name
        assert ("cap_add" in service) is (name not in OURS), name


def test_database_and_broker_have_no_way_out(compose: dict[str, Any]) -> None:
    """Only workers reach the world, and nothing of the world reaches the data."""
    internal = {
        name
        for name, each in compose["networks"].items()
        if each is not None and each["internal"]
    }
    networks = {
        name: set(service["networks"]) for name, service in compose["services"].items()
    }

    assert {"worker-quick", "worker-heavy"} == {
        name for name, joined in networks.items() if joined - internal
    }
    assert {"data"} == networks["postgres"] == networks["redis"]


def test_each_queue_has_a_worker(compose: dict[str, Any]) -> None:
    """Heavy operations never wait behind quick ones; nothing waits for nobody."""
    queues = {
        name: re.findall(
            r"--queues=(\S+)", " ".join(compose["services"][name]["command"])
        )
        for name in WORKERS
    }

    assert queues == {"worker-quick": ["quick"], "worker-heavy": ["heavy,celery"]}


def test_image_has_all_that_runs_and_is_not_root() -> None:
    """.dockerignore lets every package and file of the application through."""
    allowed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    packages = {
        path.parent.name
        for path in ROOT.glob("*/__init__.py")
        if path.parent.name not in {"benchmarks", "tests"}
    }
    sources = {path.name for path in ROOT.glob("*.py")}

    assert packages | sources | {"pyproject.toml", "requirements-image.lock"} <= allowed
    users = re.findall(r"^USER (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert users[-1:] == ["minutehand"]


class Stack:
    """
    The services of docker-compose.yml as processes of this machine, with our servers
    in the place of its own; *folder* is that of the volume ``data``, and of logs.
    """

    def __init__(
        self,
        compose: dict[str, Any],
        *,
        database_url: str,
        broker_url: str,
        secrets: Path,
        folder: Path,
    ) -> None:
        self.services: dict[str, Service] = compose["services"]
        self.folder = folder
        self.metrics_port = str(find_free_port())
        self.web_port = str(find_free_port())
        self.overrides = {
            "MINUTEHAND_HOME": str(folder / "data"),
            "MINUTEHAND_DATABASE_URL_FILE": self._write("database_url", database_url),
            "MINUTEHAND_BROKER_URL_FILE": self._write("broker_url", broker_url),
            "MINUTEHAND_SMTP_URL_FILE": self._write(
                "smtp_url", str(folder / "data" / "mails")
            ),
            "MINUTEHAND_WEBHOOK_SECRET_FILE": str(secrets / "webhook_secret"),
            "HOSTNAME": socket.gethostname(),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }

    def _write(self, name: str, secret: str) -> str:
        path = self.folder / name
        path.write_text(f"{secret}\n")
        return str(path)

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a service, with our servers in it."""
        environ = environment_of(self.services[name]) | self.overrides
        if "MINUTEHAND_METRICS_PORT" in environ:
            environ["MINUTEHAND_METRICS_PORT"] = self.metrics_port
        if "MINUTEHAND_WEB_ADDRESS" in environ:
            environ["MINUTEHAND_WEB_ADDRESS"] = f"127.0.0.1:{self.web_port}"
        return environ

    def command(self, name: str) -> list[str | Path]:
        """Return the command of a service, by its program in this environment."""
        program, *arguments = map(interpolate, self.services[name]["command"])
        return [BIN / program, *arguments]

    def run(self, name: str, command: list[str | Path]) -> None:
        """Run *command* in the place of service *name*."""
        environ = {**os.environ, **self.environment(name)}
        done = run_to_end(command, environ=environ)

        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def is_healthy(self, name: str) -> bool:
        """Run the health check of a service as compose would."""
        kind, *test = map(interpolate, self.services[name]["healthcheck"]["test"])
        line = test[0] if kind == "CMD-SHELL" else shlex.join(test)
        environ = {**os.environ, **self.environment(name)}
        return run_to_end(["/bin/sh", "-c", line], environ=environ).returncode == 0


@pytest.fixture(scope="module")
def broker_url(compose: dict[str, Any], secrets: Path) -> Iterator[str]:
    """Run the service ``redis`` by its own command, and give its URL."""
    program, *command = compose["services"]["redis"]["command"]
    assert program == "redis-server"
    config, *options = (each.replace("/run/secrets", str(secrets)) for each in command)
    with run_redis(*options, config=Path(config)) as url:
        made = (secrets / "broker_url").read_text().strip()
        yield made.replace("redis:6379", url.split("/")[2])


def demand_passwords(address: str) -> None:
    """Let a server trust its superuser alone, as the image does over the network."""

    def ask(query: str) -> Any:
        with psycopg.connect(address, autocommit=True) as connection:
            return connection.execute(query.encode()).fetchone()

    (loaded_at,), (path,) = ask("SELECT pg_conf_load_time()"), ask("SHOW hba_file")
    lines = "('host all postgres all trust'), ('host all all all scram-sha-256')"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"COPY (VALUES {lines}) TO '{path}'".encode())
    ask("SELECT pg_reload_conf()")
    wait_until(
        lambda: ask("SELECT pg_conf_load_time()") != (loaded_at,), what="a reload"
    )


@pytest.fixture(scope="module")
def database_url(compose: dict[str, Any], secrets: Path) -> Iterator[str]:
    """Run a PostgreSQL, let it be prepared as its image would, and give our URL."""
    (config,) = compose["services"]["postgres"]["configs"]
    assert config["target"].startswith("/docker-entrypoint-initdb.d/")
    script = ROOT / compose["configs"][config["source"]]["file"]
    text = script.read_text().replace("/run/secrets", str(secrets))
    with run_postgres(superuser="postgres") as url:
        address = url.replace("+psycopg", "")
        psql = find_postgres_programs() / "psql"
        options = ("--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--dbname", address)
        subprocess.run([psql, *options], input=text, text=True, check=True)
        demand_passwords(address)
        made = (secrets / "database_url").read_text().strip()
        yield made.replace("@postgres/", f"@{address.split('@')[1].split('/')[0]}/")


def test_the_application_owns_its_database_alone(
    database_url: str, secrets: Path
) -> None:
    """It is no superuser, reaches no other database, and needs its password."""
    with psycopg.connect(database_url) as connection:
        role = connection.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls"
            " FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        owned = connection.execute(
            "SELECT datname, pg_get_userbyid(datdba) = current_user FROM pg_database"
            " WHERE has_database_privilege(oid, 'CONNECT') AND datallowconn"
        ).fetchall()

    assert (False,) * 5 == role
    assert [("minutehand", True)] == owned
    for other in (
        f"{database_url.removesuffix('minutehand')}postgres",
        database_url.replace((secrets / "database_password").read_text().strip(), "x"),
    ):
        assert other != database_url
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(other).close()


@pytest.fixture(scope="module")
def stack(
    compose: dict[str, Any],
    database_url: str,
    broker_url: str,
    secrets: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    stack = Stack(
        compose,
        database_url=database_url,
        broker_url=broker_url,
        secrets=secrets,
        folder=tmp_path_factory.mktemp("stack"),
    )
    stack.run("migrate", stack.command("migrate"))
    with ExitStack() as processes:
        for name in LASTING:
            program, *arguments = stack.command(name)
            processes.enter_context(
                run_warm(
                    [*AS_MODULES[Path(program).name], *map(str, arguments)],
                    log=stack.folder / f"{name}.log",
                    environ=stack.environment(name),
                )
            )
        yield stack


@pytest.fixture(scope="module")
def engine(stack: Stack, database_url: str) -> Iterator[sa.Engine]:
    del stack  # comes first, and migrates it
    engine = make_engine(database_url.replace("://", "+psycopg://"))
    yield engine
    engine.dispose()


def test_services_do_what_they_are_for(stack: Stack, engine: sa.Engine) -> None:
    """From an empty database to a quick and a heavy run, all services healthy."""
    add_app(engine, "shop", ["ada"])
    document = {
        "templates": {"hello": {"subject": "Hello", "text": "Hello"}},
        "domains": [{"name": "sales", "source": {"file": str(stack.folder / "s.csv")}}],
    }
    (stack.folder / "s.csv").write_text("day,amount\n2026-11-23,7\n")
    app = read_small_app(json.dumps(document).encode(), uid="shop")
    write_by(engine, apply_small_app, app, ApplyTerms(stack.folder, by="ada"))
    ids: list[UUID] = []
    steps: tuple[dict[str, Any], ...] = (
        {"send_email": {"template": "hello"}},
        {"refresh": {"domains": ["sales"]}, "publish": {"data": True}},
    )
    for number, each in enumerate(steps):
        given: dict[str, Any] = {"operations": each, "recipients": {"users": ["ada"]}}
        posted = post(engine, "shop", name=f"run {number}", when=SELDOM, **given)
        ids.append(run_now(engine, posted.uid))
    wait_until(
        lambda: all(get(engine, each).finished_at for each in ids), what="both runs"
    )
    healthy = {
        # A busy machine may let the deadline of a check pass, as of any other.
        name: wait_until(partial(stack.is_healthy, name), every_s=1, what=name)
        for name in LASTING
    }

    rows = [get(engine, each) for each in ids]
    assert [("quick", "succeeded"), ("heavy", "succeeded")] == [
        (row.queue, row.state) for row in rows
    ]
    assert len(list((stack.folder / "data" / "mails").iterdir())) == 1
    assert healthy == dict.fromkeys(LASTING, True)
