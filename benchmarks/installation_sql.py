"""
The statements of benchmarks/installation.py.

What a benchmark inserts is no statement of the product; the columns are those of
models/database/tables.py.
"""

from __future__ import annotations

TEMPORARY = """
create temporary table filled_apps (
    uid text, name text, now timestamptz, first_user int, until_user int
);
create temporary table plans (
    uid text, app text, name text, queue text, revision int, zone text,
    local interval, step interval
);
create temporary table ids (number bigint, id uuid)
"""

#: Indexes that are faster made at the end.
INDEXES = """
select indexname, indexdef from pg_indexes
where tablename = any(%s) and schemaname = 'public' and indexname not in (
    select conname from pg_constraint
)
"""
LARGE = ["operations", "deliveries", "events", "scheduled_actions"]

APPS_AND_USERS = (
    """
    insert into small_apps (uid, name, timezone, created_at, updated_at)
    select uid, name, 'Europe/Paris', now - interval '1 year', now from filled_apps
    """,
    """
    insert into users (app, id, email, name, disabled, created_at, activated_at,
        last_seen_at)
    select uid, 'user-' || n, 'user-' || n || '@example.org', 'User ' || n,
        n % 50 = 0, now - random() * interval '1 year',
        now - random() * interval '90 days', now - random() * interval '90 days'
    from filled_apps cross join lateral generate_series(first_user, until_user - 1) n
    """,
    """
    insert into memberships (app, group_name, user_id)
    select app, unnest(array['everybody', 'group-' || hashtext(id) % 10]), id
    from users
    """,
    """
    insert into templates (app, name, subject, text)
    select uid, 'reminder', 'A reminder', 'Good morning' from small_apps
    """,
    """
    insert into domains (app, name, source, staged_version, live_version,
        previous_version, published_at)
    select uid, 'domain-' || n, '{"url": "https://data.example.org/a.csv"}', 9, 8, 7,
        updated_at
    from small_apps cross join generate_series(1, 5) n
    """,
    """
    insert into domain_versions (app, domain, version, path, rows, bytes, sha256,
        created_at)
    select app, name, n, app || '/' || name || '/' || n, 1000 * n, 50000 * n,
        encode(sha256(cast(app || name || n as bytea)), 'hex'), published_at
    from domains cross join generate_series(5, 9) n
    """,
)

REVISIONS = (
    """
    insert into scheduled_action_revisions (uid, revision, document, timing, active,
        effective_from, change, changed_by, recorded_at)
    select uid, n, document, timing, active, effective_from,
        case n when 1 then 'posted' else 'replaced' end, 'root@host', created_at
    from scheduled_actions cross join lateral generate_series(1, revision) n
    """,
)

#: In the order in which they were due, as rows come into the table of operations.
OCCURRENCES = """
create temporary table occurrences as
select row_number() over (order by at, uid) as number, due.*,
    random() as fate, random() as speed
from (
    select uid, app, name, queue, revision, step, t at time zone zone as at
    from plans cross join lateral generate_series(
        %(begin)s + local, %(now)s at time zone zone, step
    ) t
    where step is not null
) due
where at <= %(now)s
order by 1
"""

OCCURRENCES_OUT = """
copy (
    select number, uid || ' | '
        || to_char(at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || '+00:00'
    from occurrences
) to stdout
"""

_OPERATIONS = """
insert into operations (id, action_uid, action_revision, app, trigger, triggered_by,
    occurrence, queue, overlap, state, reason, error, attempt, details, recorded_at,
    send_at, sent_at, sends, started_at, finished_at, worker, claim_token,
    lease_expires_at, fence)
select id, uid, revision, app, case when fate > 0.99 then 'manual' else 'schedule' end,
    case when fate > 0.99 then 'person-' || number %% 40 || '@host'
        else 'Scheduled action "' || name || '"' end,
    at, queue, case queue when 'heavy' then 'skip' else 'allow' end, state,
    case state when 'failed' then case when fate < 0.015 then 'step failed'
                else 'time limit: 30 min' end
        when 'skipped' then 'overlap' when 'missed' then 'outage'
        when 'canceled' then 'canceled' end,
    case when state = 'failed' then 'run_task: the broker took nothing within '
        || number %% 7 || ' s' end,
    case when started_at is null then 0 else 1 end,
    case when state = 'missed' then jsonb_build_object(
        'count', 1 + number %% 9, 'first', at, 'last', at) end,
    at + interval '0.1 s', at,
    case when state not in ('pending', 'skipped', 'missed') then at + interval '0.2 s'
        end,
    case when state in ('pending', 'skipped', 'missed') then 0 else 1 end, started_at,
    case when state in ('skipped', 'missed') then at + interval '0.1 s'
        when state not in ('pending', 'queued', 'running')
        then started_at + exp(speed * 6) * interval '0.1 s' end,
    case when started_at is not null then 'quick@worker-' || number %% 8
        || '/ForkPoolWorker-1' end,
    case when state = 'running' then gen_random_uuid() end,
    case when state = 'running' then now() + interval '1 day' end, 1
from (
    select *, case when state in ('succeeded', 'failed', 'canceled', 'running')
        then at + interval '0.4 s' end as started_at
    from (
        select *, case
            when at > %(now)s - interval '2 hours' and queue = 'quick' then
                (array['pending', 'queued', 'running'])[1 + cast(number %% 3 as int)]
            when fate < 0.02 then 'failed'
            when fate < 0.03 then 'skipped'
            when fate < 0.032 then 'missed'
            when fate < 0.0325 then 'canceled'
            else 'succeeded' end as state
        from occurrences join ids using (number)
    ) stated
) started
order by number
"""

_STEPS = """
insert into operation_steps (operation_id, position, name, state, attempt, started_at,
    finished_at, result, error)
select id, position, name, case state when 'canceled' then 'skipped' else state end, 1,
    started_at, finished_at,
    case when state = 'succeeded' then case name
        when 'refresh' then jsonb '{"refreshed": ["a", "b"], "reused": []}'
        when 'publish' then jsonb '{"published": ["a", "b"]}'
        when 'send_email' then jsonb '{"sent": 3, "failed": 0, "uncertain": 0}'
        else jsonb '{"task_id": "5f8d4d3c-8f0e-5d7d-9d6f-0f3a1f6f0c11"}' end end,
    error
from operations cross join lateral unnest(
    case when queue = 'heavy' then array['refresh', 'publish']
    when right(action_uid, 1) in ('4', '6') then array['send_email']
    else array['run_task'] end
) with ordinality as asked (name, position)
where started_at is not null and occurrence > %(now)s - interval '30 days'
"""

_LOG = """
insert into operation_log (operation_id, number, at, attempt, step, level, text)
select operation_id, n, started_at + n * interval '0.1 s', 1, name, 'info',
    'line ' || n || ' of what this step said'
from operation_steps cross join generate_series(1, 5) n
where position = 1 and started_at > %(now)s - interval '2 days'
"""

OPERATIONS = (_OPERATIONS, _STEPS, _LOG)

_CONTENTS = """
insert into mail_contents (digest, subject, text, html, used_at)
select encode(sha256(cast('mail ' || n as bytea)), 'hex'), 'Reminder ' || n,
    repeat('Good morning. ', 50), '<p>' || repeat('Good morning. ', 50) || '</p>',
    %(now)s - n * interval '1 hour'
from generate_series(1, 2000) n
"""

_DELIVERIES = """
insert into deliveries (operation_id, step, recipient, state, error, updated_at, app,
    content)
select operation_id, step.name, 'user-' || first_user
        + cast(floor(random() * (until_user - first_user)) as int),
    case when chance < 0.002 then 'uncertain' when chance < 0.01 then 'failed'
        else 'sent' end,
    case when chance < 0.01 then '550 no such mailbox' end, step.finished_at, app,
    encode(sha256(cast('mail ' || 1 + cast(chance * 1999 as int) as bytea)), 'hex')
from (
    select *, random() as chance from operation_steps cross join generate_series(1, 3)
    where name = 'send_email' and finished_at is not null
) step
join operations on operations.id = step.operation_id
join filled_apps on filled_apps.uid = operations.app
on conflict do nothing
"""

_EVENTS = """
insert into events (id, app, name, user_id, at, recorded_at)
select gen_random_uuid(), uid,
    (array['instance.user.last_seen', 'instance.user.created', 'app.invoice_sent'])
        [1 + n %% 3],
    'user-' || first_user + n %% greatest(1, until_user - first_user), at, at
from (
    select n, %(now)s - n * (interval '90 days' / %(events)s) as at,
        power(cast(n as bigint) * 7919 %% 1000 / 1000.0, 3) as part
    from generate_series(%(events)s, 1, -1) n
) numbers
join filled_apps on filled_apps.uid
    = 'app-' || lpad(cast(1 + cast(floor(part * %(apps)s) as int) as text), 2, '0')
"""

_BULK = """
insert into bulk_changes (id, app, kind, filter, requested_by, created_at, total, done,
    finished_at)
select gen_random_uuid(), 'app-01', 'retry', '{"state": ["failed"]}', 'root@host',
    %(now)s - n * interval '4 hours', 100, 100, %(now)s - n * interval '4 hours'
from generate_series(1, 500) n
"""

_BACKFILLS = """
insert into backfills (id, app, action_uid, from_at, until_at, which, total, at_once,
    requested_by, created_at, finished_at)
select gen_random_uuid(), app, uid, created_at, updated_at, 'missing', 10, 5,
    'root@host', %(now)s, %(now)s
from scheduled_actions order by created_at desc limit 500
"""

_PROCESSES = """
insert into processes (id, role, name, hostname, pid, version, revision, queues,
    concurrency, settings, clock_skew_s, started_at, heartbeat_at)
select gen_random_uuid(), 'worker', 'quick@worker-' || n, 'worker-' || n, 1, '0.1.0',
    '0001', '["quick"]', 4, '{}', 0, %(now)s, %(now)s + interval '1 hour'
from generate_series(0, 7) n
"""

REST = (_CONTENTS, _DELIVERIES, _EVENTS, _BULK, _BACKFILLS, _PROCESSES)

CHANGE_HEAD = """
update change_head set (number, hash)
    = (select number, hash from changes order by number desc limit 1)
"""
