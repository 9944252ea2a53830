"""
Run claimed operations: attempts, the records of their steps, and their errors.

attempt is the entry point; worker has what it needs. step_records writes the result of
each step, platform_errors distinguishes trouble of the platform from failures of an
action, and pace says how long a run may take.
"""
