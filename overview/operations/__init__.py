"""
One operation, with all that is known about it.

shown has it with its steps; what it waits for, and why it did not run, is in
overview/why. account tells what became of it, same_cause how often the same failed, and
mailed who got its mails.
"""
