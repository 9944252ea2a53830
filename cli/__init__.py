"""
The command line: reads options, calls one function below, and formats the answer.

main names the commands; each command has a file. Whatever two commands or another face
need is not here but in overview, actions or operations. No other room imports this one.
"""
