"""
The Celery side: what ``celery -A celery_app worker`` loads, and all use of brokers.

app.py has the application, and tasks.py runs what messages bring. operation_sender.py
hands operations to the broker; task_sender.py sends tasks of users' own, and
answer_reader.py reads how they ended. assembly.py makes scheduler and worker from the
settings, for the entry points. Code that needs neither Celery nor a broker does not
belong here.
"""

from celery_app.app import app as celery

__all__ = ["celery"]
