"""
The Celery application, configured from the settings when it is first used.

JSON only, no result backend (the operations table says what happened), prefetch 1.
On RabbitMQ a message is acknowledged when its operation is final or pending again;
on Redis there are no acknowledgements (redis_transport.py).
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
from celery_app.worker_start import make_worker_option
from settings import Settings, read_settings

#: Only our own queues are consumed (routing.py).
_AMQP = "celery_app.routing:Amqp"

app = Celery(
    "minutehand", include=["celery_app.tasks"], amqp=_AMQP, set_as_current=False
)

#: Our transports by the scheme of the broker's URL, loaded when needed. Other schemes
#: use kombu's own transports.
_TRANSPORTS = {
    "redis": "celery_app.redis_transport:RedisTransport",
    "rediss": "celery_app.redis_transport:RedisTlsTransport",
    "redis+socket": "celery_app.redis_transport:SocketTransport",
    "sentinel": "celery_app.redis_transport:SentinelTransport",
    "amqp": "celery_app.rabbit_transport:RabbitTransport",
    "amqps": "celery_app.rabbit_transport:RabbitTlsTransport",
}


def make_config(settings: Settings) -> dict[str, Any]:
    """Return Celery's configuration, in which every broker call has a deadline."""
    timeout_s = settings.broker_timeout.total_seconds()
    scheme = settings.broker_url.partition(":")[0]
    is_amqp = scheme in {"amqp", "amqps"}
    return {
        # If the scheme had a plus in it, kombu would ignore our transport.
        "broker_url": settings.broker_url.removeprefix("redis+"),
        "broker_transport": _TRANSPORTS.get(scheme),
        # By default, kombu accepts any certificate.
        "broker_use_ssl": {"ssl_cert_reqs": CERT_REQUIRED}
        if scheme == "rediss"
        else False,
        "broker_connection_retry_on_startup": True,
        # A worker outlives any outage of its broker; by default it gives up.
        "broker_connection_max_retries": None,
        # RabbitMQ closes the channel of a worker that keeps a message for too long.
        # By default the worker would end; what it runs is safe in either case.
        "broker_channel_error_retry": True,
        "broker_connection_timeout": timeout_s,
        "broker_transport_options": _make_transport_options(settings, timeout_s),
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_backend": None,
        "task_ignore_result": True,
        # On Redis this only frees a slot: no message is taken in advance.
        "task_acks_late": True,
        "task_acks_on_failure_or_timeout": True,
        "worker_prefetch_multiplier": 1,
        # In KiB, checked after each operation.
        "worker_max_memory_per_child": settings.worker_max_memory >> 10,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": False,
        "worker_soft_shutdown_timeout": 10.0,
        # Ten by default, to wait for results; ours are in the table.
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
    """Return how long a message may stay unacknowledged: twice the longest limit."""
    return 2 * max(settings.heavy_hard_limit, settings.quick_hard_limit)


def _limits(settings: Settings, queue: str) -> dict[str, float]:
    soft = getattr(settings, f"{queue}_soft_limit")
    hard = getattr(settings, f"{queue}_hard_limit")
    return {"soft_time_limit": soft.total_seconds(), "time_limit": hard.total_seconds()}


def _make_transport_options(settings: Settings, timeout_s: float) -> dict[str, Any]:
    if settings.broker_url.startswith(("redis", "sentinel")):
        return {
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            "socket_keepalive": True,
            "retry_on_timeout": False,
            "health_check_interval": 10,
            "max_retries": 0,
            # We use lanes instead of priorities, which would make each look for a
            # message name four keys a lane.
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
app.user_options["worker"].add(make_worker_option())
app.steps["worker"].add(PresenceStep)


def make_app(settings: Settings) -> Celery:
    """Return an application without tasks, for a sender in the scheduler."""
    made = Celery("minutehand", amqp=_AMQP, set_as_current=False)
    made.conf.update(make_config(settings))
    return made
