"""
Run claimed operations: attempts, the records of their steps, and their errors.

attempt.py is the way in. step_context.py is what a step is given, and step_records.py
writes what became of it. platform_errors.py tells trouble of the platform from failures
of an action, news.py whether a refresh brought something new, and pace.py how long runs
usually take.
"""
