"""
What ``celery -A celery_app worker`` looks for, and all that is about Celery.

app is the application, tasks the way of a message, sender that of an operation to the
broker. assembly makes scheduler and worker of the settings; the entry points come in by
it. What neither Celery nor a broker knows has no place here.
"""

from celery_app.app import app as celery

__all__ = ["celery"]
