"""
The installation as a whole, at this moment.

status is the answer in short, and figures what it counts; metrics has them for
Prometheus. queues, workers and leaders each have one kind of thing. installed says what
is set up, readiness whether this process can serve, and support_bundle collects what
somebody who helps from afar needs.
"""
