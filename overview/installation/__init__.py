"""
The installation as a whole, at this moment.

status is the answer in short, and figures what it counts; metrics has them for
Prometheus. queues, workers and leaders each have one kind of thing. installed says what
is set up, and collects what somebody who helps from afar needs.
"""
