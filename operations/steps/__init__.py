"""The steps, by the name of their field in OperationModel."""

from __future__ import annotations

from operations.ports import StepFunction
from operations.steps.call_webhook import call_webhook
from operations.steps.maintenance import maintenance
from operations.steps.notify import notify
from operations.steps.publish import publish
from operations.steps.refresh import refresh
from operations.steps.run_task import run_task
from operations.steps.send_mails import send_email, send_execsum

STEPS: dict[str, StepFunction] = {
    "refresh": refresh,
    "publish": publish,
    "send_email": send_email,
    "send_execsum": send_execsum,
    "maintenance": maintenance,
    "call_webhook": call_webhook,
    "run_task": run_task,
    "notify": notify,
}
