"""
The page Now: what is wrong at this moment, what is fine, and what comes next.

verdict says it in a sentence; the files called fetch_ ask what no other face shows.
"""
