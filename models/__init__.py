"""
What everything is called: documents, decisions and states, and the tables.

The modules of this folder are the shapes that cross a package border. door/ reads what
people write, expressions/ has the languages that rules are written in, fields/ the
kinds of text that documents are made of; all of that is pure. database/ is where it is
kept. Everybody comes in; nothing is imported from above.
"""
