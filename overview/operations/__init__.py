"""
One operation, with all that is known about it.

shown has it with its steps, as operation_json documents it; beside and why_not say what
it waits for, and why it did not run. account tells what became of it, same_cause how
often the same failed, mailed who got its mails, and counts how many are in each state.
"""
