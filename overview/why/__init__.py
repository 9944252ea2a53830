"""
Why something ran, waits or did not run: one sentence for each reason, on every face.

sentences words what is known of an operation; circumstances asks for what its row does
not tell; instant answers for any instant of an action; occurrence_list has those of a
period.
"""
