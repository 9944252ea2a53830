"""
The Celery application. Configured from the settings when it is first used.

JSON only, no result backend (the operations table tells what happened), prefetch
1. RabbitMQ gets a message acknowledged when its operation is final or back in the
table, Redis never (redis_transport.py).
"""

from __future__ import annotations

from datetime import timedelta
from ssl import CERT_REQUIRED
from typing import Any

from celery import Celery

from celery_app.routing import (
    EXECUTE_SCHEDULED_ACTION,
    EXECUTE_SCHEDULED_ACTION_QUICK,
    make_names,
    make_queues,
    metatask_schedule,
)
from celery_app.signs_of_life import PresenceStep
from celery_app.worker_start import make_worker_options
from settings import Settings, read_settings

#: Its queues, and none else, are consumed (routing.py).
_AMQP = "celery_app.routing:Amqp"

app = Celery(
    "minutehand", include=["celery_app.tasks"], amqp=_AMQP, set_as_current=False
)

#: By the scheme of the broker's URL; otherwise kombu's own. Loaded when needed.
_TRANSPORTS = {
    "redis": "celery_app.redis_transport:Transport",
    "rediss": "celery_app.redis_transport:TlsTransport",
    "redis+socket": "celery_app.redis_transport:SocketTransport",
}


def make_config(settings: Settings) -> dict[str, Any]:
    """Return Celery's configuration; every broker call has a deadline."""
    timeout_s = settings.broker_timeout.total_seconds()
    scheme = settings.broker_url.partition(":")[0]
    is_amqp = scheme in {"amqp", "amqps"}
    return {
        # With a plus in it, kombu takes a transport of its own instead of ours.
        "broker_url": settings.broker_url.removeprefix("redis+"),
        "broker_transport": _TRANSPORTS.get(scheme),
        # By default, kombu takes any certificate.
        "broker_use_ssl": {"ssl_cert_reqs": CERT_REQUIRED}
        if scheme == "rediss"
        else False,
        "broker_connection_retry_on_startup": True,
        # A worker outlives any outage of its broker; by default it gives up.
        "broker_connection_max_retries": None,
        # RabbitMQ closes the channel of a worker that holds a message for too long.
        # By default that is the end of the worker; what it runs is safe anyway.
        "broker_channel_error_retry": True,
        "broker_connection_timeout": timeout_s,
        "broker_transport_options": _make_transport_options(settings, timeout_s),
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_backend": None,
        "task_ignore_result": True,
        # On Redis this frees a slot, no more: nothing is taken ahead of its time.
        "task_acks_late": True,
        "task_acks_on_failure_or_timeout": True,
        "worker_prefetch_multiplier": 1,
        # Looked at after each operation, in KiB.
        "worker_max_memory_per_child": settings.worker_max_memory >> 10,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": False,
        "worker_soft_shutdown_timeout": 10.0,
        # Ten by default, for results still on their way; ours are in the table.
        "worker_lost_wait": 1.0,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_detect_quorum_queues": is_amqp,
        "worker_consumer": "celery_app.consumer:Consumer",
        **make_names(settings.queue_prefix),
        "task_queues": make_queues(
            prefix=settings.queue_prefix,
            quorum=is_amqp,
            acknowledged_within=_find_longest(settings) if is_amqp else None,
        ),
        "task_create_missing_queues": False,
        "task_publish_retry": False,
        "timezone": "UTC",
        "enable_utc": True,
        "task_annotations": {
            EXECUTE_SCHEDULED_ACTION: _limits(settings, "heavy"),
            EXECUTE_SCHEDULED_ACTION_QUICK: _limits(settings, "quick"),
            metatask_schedule: _limits(settings, "heavy"),
        },
    }


def _find_longest(settings: Settings) -> timedelta:
    """Return for how long a message may be held: as long as any operation takes."""
    return 2 * max(settings.heavy_hard_limit, settings.quick_hard_limit)


def _limits(settings: Settings, queue: str) -> dict[str, float]:
    soft = getattr(settings, f"{queue}_soft_limit")
    hard = getattr(settings, f"{queue}_hard_limit")
    return {"soft_time_limit": soft.total_seconds(), "time_limit": hard.total_seconds()}


def _make_transport_options(settings: Settings, timeout_s: float) -> dict[str, Any]:
    if settings.broker_url.startswith("redis"):
        return {
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            "socket_keepalive": True,
            "retry_on_timeout": False,
            "health_check_interval": 10,
            "max_retries": 0,
            # Lanes instead; by default each look for a message names four keys a lane.
            "priority_steps": [0],
        }
    if settings.broker_url.startswith("amqp"):
        return {
            "confirm_publish": True,
            "read_timeout": timeout_s,
            "write_timeout": timeout_s,
            "connect_timeout": timeout_s,
            "max_retries": 0,
        }
    return {"polling_interval": 0.1}  # memory://, within one process


app.add_defaults(lambda: make_config(read_settings()))
app.user_options["worker"].update(make_worker_options())
app.steps["worker"].add(PresenceStep)


def make_app(settings: Settings) -> Celery:
    """Return an application without tasks, for a sender beside the process's own."""
    made = Celery("minutehand", amqp=_AMQP, set_as_current=False)
    made.conf.update(make_config(settings))
    return made
