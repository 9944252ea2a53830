"""
Pauses of an action, a small app, or the whole installation.

pause_state says what a pause is and what it writes into actions, pause_and_resume makes
and ends them. The leader comes in to end what is over, posting to pause what is posted
into a small app that is paused, and the faces for the rest.
"""
