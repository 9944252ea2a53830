"""
What every face shows: status, findings, figures and metrics, as plain data.

Functions take a connection and return dataclasses, whose ``as_json`` is the documented
object; json_form writes it. A face only formats them. operations, actions and apps have
one of each with all that is known of it; status has the installation at this moment,
and doctor/ what is looked at for trouble to come. explaining answers why, auditing
compares with the rules, previews tells what would be, reasons what a state or a reason
means.

The faces and the scheduler come in; nothing is written from here.
"""
