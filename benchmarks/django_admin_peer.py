"""
The admin of django-celery-beat with many tasks, as people look at it.

As a module for ``django-admin`` this is its settings; they come from the environment.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.load import TASK, arguments_of
from benchmarks.servers import Servers
from tests.servers import ROOT, find_free_port, run_process, wait_for_port

_DSN = "BENCHMARK_ADMIN_DSN"

_where = urlsplit(os.environ.get(_DSN, "postgresql://nobody@127.0.0.1:1/none"))

SECRET_KEY = "benchmark"  # noqa: S105 - Django wants one
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "benchmarks.django_admin_urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_celery_beat",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "CONN_MAX_AGE": 600,
        "HOST": _where.hostname,
        "PORT": _where.port,
        "USER": _where.username,
        "NAME": _where.path.lstrip("/"),
    }
}


@dataclass(frozen=True, slots=True)
class Admin:
    """
    An admin that runs.

    Args:
        cookie: Of somebody who is signed in, as a header.
    """

    url: str
    cookie: str
    process: psutil.Process


@contextmanager
def run_admin(servers: Servers, tasks: int) -> Iterator[Admin]:
    """Store *tasks*, and serve the admin for the length of the block."""
    port = find_free_port()
    environment = {
        _DSN: servers.dsn,
        "DJANGO_SETTINGS_MODULE": "benchmarks.django_admin_peer",
        "PYTHONPATH": str(ROOT),
    }
    with tempfile.TemporaryDirectory() as folder:
        log, session = Path(folder) / "admin.log", Path(folder) / "session"
        fill = [sys.executable, "-m", "benchmarks.django_admin_peer"]
        with run_process(
            [*fill, str(tasks), str(session)], log=log, environ=environment
        ) as filling:
            assert filling.wait(600) == 0, log.read_text()
        command = [sys.executable, "-m", "django", "runserver", f"127.0.0.1:{port}"]
        command += ["--noreload", "--insecure"]
        with run_process(command, log=log, environ=environment) as process:
            wait_for_port(port, process, log=log)
            cookie = f"sessionid={session.read_text()}"
            url = f"http://127.0.0.1:{port}"
            yield Admin(url, cookie, psutil.Process(process.pid))


def fill_admin(tasks: int, session: Path) -> None:
    """Make the tables, somebody who is signed in, and *tasks*."""
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client
    from django_celery_beat import models

    call_command("migrate", verbosity=0)
    person = User.objects.create_superuser("ada")
    rules = [
        models.CrontabSchedule.objects.create(minute=minute, timezone="UTC")
        for minute in range(60)
    ]
    models.PeriodicTask.objects.bulk_create(
        [
            models.PeriodicTask(
                name=f"schedule {number}",
                task=TASK,
                kwargs=json.dumps(arguments_of(number)),
                crontab=rules[number % 60],
            )
            for number in range(tasks)
        ],
        batch_size=1000,
    )
    client = Client()
    client.force_login(person)
    session.write_text(client.cookies["sessionid"].value)


if __name__ == "__main__":
    fill_admin(int(sys.argv[1]), Path(sys.argv[2]))
