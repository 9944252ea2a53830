"""
What other schedulers ran, as scheduled actions of ours.

``readers`` gets the entries of an origin from where it keeps them: a module, a table,
keys, pickles. ``origins``, which is pure, says what each becomes: a document, whether
that is the same, and what differs. ``shadow`` compares what beat sent with that. The
command line comes in.
"""
