"""
Mails: their content, their recipients, and the marks that prevent sending one twice.

message.py defines what a mail is. template.py renders what admins write, and summary/
the executive summary, in the words of words.py and languages/; compose.py makes the
mails of a step from them. deliver.py sends these to frozen recipients, under the marks
of delivery_marks.py. list_mails.py reads mails back, and resolve_mails.py settles those
whose fate nobody knows.
"""
