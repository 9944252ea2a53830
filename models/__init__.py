"""
What everything is called: documents, decisions and states, and the tables.

The modules in this folder are the shapes that cross package borders. door/ reads what
people write, expressions/ has the languages of cron and calendar rules, fields/ has the
kinds of text that documents are made of; all of these are pure. database/ is where
everything is kept. Every package may import from here; nothing here imports from above.
"""
