"""
Run what was claimed: the attempt, its steps as they are recorded, and its trouble.

attempt is the way in, worker what it is done with. step_records writes what became of
each step, platform_errors tells trouble of ours from failures of an action, estimates
tells people how long.
"""
