"""
What every face shows: status, findings, figures and metrics, as plain data.

Functions take a connection and return dataclasses; a face only formats them. doctor/
has what is looked at for trouble to come. The faces and the scheduler come in; nothing
is written from here.
"""
