"""
What would happen, before it does.

new says when an action that is not stored would run, stored when one that is runs next,
edits what an edit changes in its near future, and runs what a run now would do.
"""
