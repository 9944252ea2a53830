"""
The command line: reads options, calls one function below, and formats the answer.

main names the commands; each command is a file. What two commands, or another face,
need to know is not here but in overview, actions or operations. Nobody comes in but
whoever calls ``minutehand``.
"""
