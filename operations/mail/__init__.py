"""
Mails: their content, their recipients, and the marks that prevent sending one twice.

message defines what a mail is, and occasion what it is about. template renders what
admins write, and summary/ the executive summary, in the words of languages/;
compose_templates and compose_summaries make the mails of a step. deliver sends to
frozen recipients under the marks of delivery_marks; uncertain_mails handles mails whose
fate nobody knows.
"""
