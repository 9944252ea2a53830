"""
A RabbitMQ for tests: a node of our own on free ports, with data of its own.

RabbitMQ and the port mapper of Erlang run as the user of the Debian package when we
are root, else as ourselves.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import amqp

from tests.chaos.servers import Victim
from tests.programs import find_program
from tests.servers import (
    ServerError,
    find_free_port,
    make_folder,
    run_process,
    wait_for_port,
)

_USER = "rabbitmq"

#: A message that a worker holds longer closes its channel: 30 minutes by default,
#: looked at once a minute.
CONSUMER_TIMEOUT_S = 3
_CONFIGURATION = f"""
consumer_timeout = {CONSUMER_TIMEOUT_S * 1000}
log.file.level = warning
"""
_ADVANCED = "[{rabbit, [{channel_tick_interval, 1000}]}].\n"


@contextmanager
def run_faulty_rabbit() -> Iterator[Victim]:
    """Run a RabbitMQ that can be killed and started again."""
    program = find_program("rabbitmq-server")
    mapper = shutil.which("epmd")
    if program is None or mapper is None:
        msg = "rabbitmq-server is not installed (Debian: apt-get install it)"
        raise ServerError(msg)
    user = _find_user()
    with make_folder("rabbit") as folder:
        if user is not None:
            shutil.chown(folder, user)
        port, distribution, names = (find_free_port() for _ in range(3))
        (folder / "rabbitmq.conf").write_text(_CONFIGURATION)
        (folder / "advanced.config").write_text(_ADVANCED)
        environ = {
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_NODENAME": f"minutehand{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            # Whoever waits for a message here spins on no core for it.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "+sbwt none +sbwtdcpu none +sbwtdio none"
            ),
            # Then the script becomes the server, instead of waiting for it.
            "RUNNING_UNDER_SYSTEMD": "1",
        }
        mapper_command = [mapper, "-port", str(names), "-address", "127.0.0.1"]
        with run_process(
            mapper_command,
            log=folder / "epmd.log",
            environ=environ,
            user=user,
            cwd=folder,
            stop_signal=signal.SIGKILL,
        ) as names_process:
            # The server would start one of its own, which nobody stops.
            wait_for_port(names, names_process, log=folder / "epmd.log")
            server = Victim(
                "RabbitMQ",
                [program],
                folder / "server.log",
                lambda: _answers(port),
                f"amqp://guest:guest@127.0.0.1:{port}//",
                user=user,
                environ=environ,
                stop_signal=signal.SIGKILL,
            )
            try:
                server.start()
                yield server
            finally:
                server.kill()
                server.stop()


def connect(rabbit: Victim) -> amqp.Connection:
    """Return a connection of the test's own."""
    return amqp.Connection(rabbit.url.rpartition("@")[2].rstrip("/"))


#: For Erlang: the names of all queues and exchanges, as one text.
_LIST = """
Names = rabbit_amqqueue:list_names(<<"/">>) ++ rabbit_exchange:list_names(),
lists:flatten([[atom_to_list(K), " ", binary_to_list(N), "|"]
  || {resource, _, K, N} <- Names]).
"""


def call_erlang(rabbit: Victim, code: str) -> str:
    """Let *rabbit* evaluate *code*; return what comes of it, as Erlang writes it."""
    # It comes with Erlang, and takes no second of CPU to start, as rabbitmqctl does.
    program = shutil.which("erl_call")
    assert program is not None
    cookie = (rabbit.log.parent / ".erlang.cookie").read_text().strip()
    node = rabbit.environ["RABBITMQ_NODENAME"]
    return subprocess.run(
        [program, "-sname", node, "-c", cookie, "-e"],
        input=f"{code}\n",
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **rabbit.environ},
        timeout=240,
    ).stdout.strip()


def list_declared(rabbit: Victim) -> tuple[set[str], set[str]]:
    """Return the names of all queues, and of the exchanges that somebody declared."""
    done = call_erlang(rabbit, _LIST)
    found: dict[str, set[str]] = {"queue": set(), "exchange": set()}
    answer = re.fullmatch(r'\{ok, "(.*)"\}', done)
    assert answer is not None, done
    for line in answer[1].split("|"):
        kind, _, name = line.partition(" ")
        if kind in found and name and not name.startswith("amq."):
            found[kind].add(name)
    return found["queue"], found["exchange"]


def purge(rabbit: Victim) -> None:
    """
    Delete all queues and exchanges that somebody declared.

    But not what marks a reader of answers: it ends with the connection of that reader,
    who may have been killed a moment ago, and nobody else may delete it.
    """
    queues, exchanges = list_declared(rabbit)
    with connect(rabbit) as connection:
        channel = connection.channel()
        for queue in queues:
            if not queue.endswith(".reader"):
                channel.queue_delete(queue)
        for exchange in exchanges:
            channel.exchange_delete(exchange)


def _find_user() -> str | None:
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam(_USER).pw_name
    return None


def _answers(port: int) -> bool:
    try:
        with amqp.Connection(f"127.0.0.1:{port}", connect_timeout=2):
            return True
    except (OSError, amqp.AMQPError):
        return False
