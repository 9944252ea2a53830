"""
Why actions ran, or did not: the rules, read again, against the recorded decisions.

history fetches what an explanation needs; why answers for one instant, audit for a
whole period. own_readings and recorded share as little code as possible with the
tick, so that its errors are not repeated here. The faces and the tests import this
room; the tick never does.
"""
