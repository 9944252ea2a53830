"""
The kinds of text that fields hold: instants, durations, zones, names, URLs. Pure.

Each module reads one kind, and refuses other text in the wording of strict_model.py.
Documents, rules and settings are made of these; nothing here knows a whole document.
"""
