"""
Pauses of an action, a small app, or the whole installation.

pause_state says what a pause is and what it writes into actions; pause_and_resume
begins and ends pauses. The leader ends pauses that are over, posting pauses what is
posted to a paused small app, and the faces do the rest.
"""
