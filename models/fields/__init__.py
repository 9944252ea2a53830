"""
The kinds of text that fields hold: instants, durations, zones, names, URLs. Pure.

Each module reads one of them, and refuses what it is not, in the words of strict_model.
Documents, rules and settings are made of these; nothing here knows a whole document.
"""
