# One image for every service; docker-compose.yml gives each its command.

# A release names it by its digest (make image).
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
RUN python -m venv /opt/minutehand
# With the extras: signing in with a company, traces, agents.
COPY requirements-image.lock ./
RUN /opt/minutehand/bin/pip install --no-cache-dir --require-hashes -r requirements-image.lock
COPY . .
RUN /opt/minutehand/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM ${BASE}
# No root: what runs here needs one folder and the network.
RUN useradd --uid 10001 --create-home --home-dir /home/minutehand minutehand \
    && install --directory --mode 0700 --owner minutehand --group minutehand /data
COPY --from=build /opt/minutehand /opt/minutehand
# The scheduler is started by its file, as in a checkout.
COPY --chown=root:root scheduler_server.py /app/
ENV PATH=/opt/minutehand/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MINUTEHAND_HOME=/data
WORKDIR /app
USER minutehand
VOLUME /data
# Python as process 1 ignores signals it does not handle; compose adds an init.
CMD ["minutehand", "up"]
