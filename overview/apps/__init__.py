"""
Small apps: what belongs to them, and what is going on in them.

shown has an app with its numbers, standing what in each needs a look, status its state
for those who may know nothing of the others, data what is staged and live, and choices
the apps that one may choose from.
"""
