"""
What is wrong at this moment, what is fine, and what comes next.

The parts of the answer are read one by one, so that one that cannot be read leaves the
others. Each looks at a bounded number of rows that an index serves.
"""
