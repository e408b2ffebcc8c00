-- What the journal asks of SQLite: a name after two dashes, then its statement.
--
-- A write is one statement, and so is its own transaction: nothing can come between its parts. Rows travel as one
-- JSON text, in and out. Bound or fetched one by one they would take the interpreter's lock once a row, and a busy
-- event loop lets go of it rarely: 4,000 entries took seconds that way, and a tenth of one this way. Entries alone
-- are bound all at once, which takes SQLite half the time of reading them out of a text.

-- inspect
SELECT
    (SELECT application_id FROM pragma_application_id),
    (SELECT user_version FROM pragma_user_version),
    (SELECT count(*) FROM sqlite_schema);

-- prepare_file
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
-- Once a listing or another program has let the -wal file grow beyond this, it is cut again.
PRAGMA journal_size_limit = 33554432;

-- prepare_writer
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY;

-- prepare_inline
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 0;

-- check
PRAGMA quick_check(1);

-- whole_commit
CREATE TEMP VIEW whole_commit AS
SELECT NULL AS deleted, NULL AS cuts, NULL AS created, NULL AS updated, NULL AS entries, NULL AS received, NULL AS taken, NULL AS disarmed, NULL AS armed, NULL AS ticks,
    NULL AS hooks, NULL AS cleared, NULL AS chunks, NULL AS closed;

CREATE TEMP VIEW stream_commit AS
SELECT NULL AS cleared, NULL AS chunks, NULL AS closed;

CREATE TEMP TRIGGER apply_stream_commit INSTEAD OF INSERT ON stream_commit
BEGIN
    DELETE FROM chunk
    WHERE (number, stream) IN (SELECT value ->> 0, value ->> 1 FROM json_each(NEW.cleared));

    INSERT INTO chunk (number, stream, place, step, attempt, size_bytes, value)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
    FROM json_each(NEW.chunks);

    INSERT INTO closed_stream (number, stream, step)
    SELECT value ->> 0, value ->> 1, value ->> 2
    FROM json_each(NEW.closed) WHERE true
    ON CONFLICT DO NOTHING;
END;

CREATE TEMP TRIGGER apply_commit INSTEAD OF INSERT ON whole_commit
BEGIN
    DELETE FROM instance WHERE number IN (SELECT value FROM json_each(NEW.deleted));

    DELETE FROM entry
    WHERE number IN (SELECT value ->> 0 FROM json_each(NEW.cuts) WHERE value ->> 1 IS NULL);

    -- Beside the steps: the instance's own entries, but for queued and started, and the rollback (17 to 25, 103).
    DELETE FROM entry
    WHERE number IN (SELECT value ->> 0 FROM json_each(NEW.cuts) WHERE value ->> 1 IS NOT NULL)
        AND (
            (step IS NULL AND event NOT IN (0, 1))
            OR event BETWEEN 17 AND 25 OR event = 103
            OR (number, (SELECT step_kind FROM fact WHERE fact.event = entry.event), step) IN (
                SELECT cut.value ->> 0, step.value ->> 0, step.value ->> 1
                FROM json_each(NEW.cuts) AS cut, json_each(cut.value, '$[1]') AS step
            )
        );

    -- A restart drops the events, whatever it keeps.
    DELETE FROM mailbox WHERE number IN (SELECT value ->> 0 FROM json_each(NEW.cuts));

    -- Of a step that runs again, what it has returned; what it has written to a stream stays.
    DELETE FROM chunk
    WHERE number IN (SELECT value ->> 0 FROM json_each(NEW.cuts))
        AND (
            number IN (SELECT value ->> 0 FROM json_each(NEW.cuts) WHERE value ->> 1 IS NULL)
            OR (number, stream) IN (
                SELECT cut.value ->> 0, char(31) || (step.value ->> 1)
                FROM json_each(NEW.cuts) AS cut, json_each(cut.value, '$[1]') AS step
                WHERE step.value ->> 0 = 'do'
            )
        );

    -- A stream is open again unless a step that is kept has closed it.
    DELETE FROM closed_stream
    WHERE number IN (SELECT value ->> 0 FROM json_each(NEW.cuts))
        AND (
            step IS NULL
            OR number IN (SELECT value ->> 0 FROM json_each(NEW.cuts) WHERE value ->> 1 IS NULL)
            OR (number, step) IN (
                SELECT cut.value ->> 0, step.value ->> 1
                FROM json_each(NEW.cuts) AS cut, json_each(cut.value, '$[1]') AS step
                WHERE step.value ->> 0 = 'do'
            )
        );

    INSERT INTO instance (
        number, workflow, id, status, created_ms, modified_ms, started_ms, ended_ms, waking, expires_ms,
        source, schedule, success_retention_ms, error_retention_ms, params, parent, code, logic, attributes
    )
    SELECT
        value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
        value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14,
        value ->> 15, value ->> 16, value ->> 17, value ->> 18
    FROM json_each(NEW.created);

    UPDATE instance
    SET
        status = change.value ->> 1,
        modified_ms = change.value ->> 2,
        started_ms = change.value ->> 3,
        ended_ms = change.value ->> 4,
        waking = change.value ->> 5,
        expires_ms = change.value ->> 6,
        attributes = change.value ->> 7
    FROM json_each(NEW.updated) AS change
    WHERE instance.number = change.value ->> 0;

    INSERT INTO entry (number, seq, event, at_ms, step, body)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value -> 5
    FROM json_each(NEW.entries);

    INSERT INTO mailbox (number, seq, at_ms, event_type, payload, delivery_id)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
    FROM json_each(NEW.received);

    DELETE FROM mailbox
    WHERE (number, seq) IN (SELECT value ->> 0, value ->> 1 FROM json_each(NEW.taken));

    DELETE FROM timer
    WHERE number IN (SELECT value ->> 0 FROM json_each(NEW.disarmed) WHERE value ->> 1 IS NULL);

    DELETE FROM timer
    WHERE (number, kind, step) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(NEW.disarmed));

    INSERT INTO timer (number, kind, step, due_ms)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3
    FROM json_each(NEW.armed) WHERE true
    ON CONFLICT DO UPDATE SET due_ms = excluded.due_ms;

    INSERT INTO schedule (workflow, cron, last_ms)
    SELECT value ->> 0, value ->> 1, value ->> 2
    FROM json_each(NEW.ticks) WHERE true
    ON CONFLICT DO UPDATE SET last_ms = max(last_ms, excluded.last_ms);

    DELETE FROM hook
    WHERE hook_id IN (SELECT value ->> 0 FROM json_each(NEW.hooks) WHERE value ->> 10 = 'released');

    -- A token that is held again has a row of its former hook no longer: that one's time was up.
    INSERT OR REPLACE INTO hook (
        hook_id, scope, token, workflow, instance_id, created_ms, metadata, retain_until_ms, is_webhook, schema,
        stage
    )
    SELECT
        value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
        value ->> 8, value ->> 9, value ->> 10
    FROM json_each(NEW.hooks) WHERE value ->> 10 <> 'released';

    INSERT INTO stream_commit (cleared, chunks, closed)
    SELECT NEW.cleared, NEW.chunks, NEW.closed
    WHERE coalesce(NEW.cleared, NEW.chunks, NEW.closed) IS NOT NULL;
END;

-- commit
INSERT INTO whole_commit (deleted, cuts, created, updated, entries, received, taken, disarmed, armed, ticks, hooks, cleared, chunks, closed)
VALUES

-- commit_streams
INSERT INTO stream_commit (cleared, chunks, closed) VALUES (?, ?, ?);

-- append
INSERT INTO entry (number, seq, event, at_ms, step, body) VALUES

-- last_number
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'instance'), 0);

-- load
WITH wanted AS MATERIALIZED (
    SELECT DISTINCT number
    FROM json_each(:keys) AS named
    CROSS JOIN instance ON instance.workflow = named.value ->> 0 AND instance.id = named.value ->> 1
),
-- All of it, or no row at all where it is too much for one text.
measured AS MATERIALIZED (
    SELECT
        (SELECT total(length(params)) FROM wanted CROSS JOIN instance USING (number))
        + (SELECT total(length(body)) FROM wanted CROSS JOIN entry USING (number))
        + (SELECT total(length(payload)) FROM wanted CROSS JOIN mailbox USING (number))
        <= :most_chars AS fits
)
SELECT
    (
        SELECT json_group_array(json_array(
            number, workflow, id, status, created_ms, modified_ms, started_ms, ended_ms, waking, expires_ms,
            source, schedule, success_retention_ms, error_retention_ms, params, parent, code, logic, attributes
        ))
        FROM wanted CROSS JOIN instance USING (number)
    ),
    (
        SELECT json_group_array(json_array(number, seq, event, at_ms, step, body))
        FROM wanted CROSS JOIN entry USING (number)
    ),
    (
        SELECT json_group_array(json_array(number, seq, at_ms, event_type, payload, delivery_id))
        FROM wanted CROSS JOIN mailbox USING (number)
    )
FROM measured WHERE fits;

-- sizes
SELECT number, (
    SELECT json_group_array(json_array(seq, chars))
    FROM (
        SELECT seq, length(body) AS chars FROM entry WHERE entry.number = instance.number
        UNION ALL
        SELECT seq, coalesce(length(payload), 0) FROM mailbox WHERE mailbox.number = instance.number
        ORDER BY seq
    )
)
FROM instance WHERE workflow = :workflow AND id = :id;

-- piece
SELECT
    (
        SELECT json_group_array(json_array(number, seq, event, at_ms, step, body))
        FROM entry WHERE number = :number AND seq BETWEEN :first_seq AND :last_seq
    ),
    (
        SELECT json_group_array(json_array(number, seq, at_ms, event_type, payload, delivery_id))
        FROM mailbox WHERE number = :number AND seq BETWEEN :first_seq AND :last_seq
    );

-- entries
SELECT json_group_array(json_array(number, seq, event, at_ms, step, body))
FROM (
    SELECT number, seq, event, at_ms, step, body
    FROM instance CROSS JOIN entry USING (number)
    WHERE workflow = :workflow AND id = :id AND seq > :after_seq
    ORDER BY seq LIMIT :limit
);

-- named
SELECT workflow, id
FROM instance
WHERE (:workflow IS NULL OR workflow = :workflow) AND (:id IS NULL OR id = :id)
ORDER BY number;

-- newest
SELECT workflow, id
FROM instance
WHERE :workflow IS NULL OR workflow = :workflow
ORDER BY number DESC
LIMIT 1;

-- existing
SELECT json_group_array(json_array(instance.workflow, instance.id))
FROM json_each(:keys) AS named
CROSS JOIN instance ON instance.workflow = named.value ->> 0 AND instance.id = named.value ->> 1;

-- row
SELECT json_group_array(json_array(
    number, workflow, id, status, created_ms, modified_ms, started_ms, ended_ms, waking, expires_ms,
    source, schedule, success_retention_ms, error_retention_ms, params, parent, code, logic, attributes
))
FROM instance WHERE workflow = :workflow AND id = :id;

-- rows
SELECT json_group_array(json_array(
    number, workflow, id, status, created_ms, modified_ms, started_ms, ended_ms, waking, expires_ms,
    source, schedule, success_retention_ms, error_retention_ms, params, parent, code, logic, attributes
))
FROM (
    SELECT * FROM instance
    WHERE {matches}
    ORDER BY created_ms {direction}, number {direction}
    LIMIT :limit OFFSET :offset
);

-- beyond
AND (created_ms, number) {beyond} (
    -- Where that row has been deleted, the one before it tells how far the listing had come.
    coalesce((SELECT created_ms FROM instance WHERE number <= :after ORDER BY number DESC LIMIT 1), 0), :after
)

-- has_attributes
NOT EXISTS (
    SELECT 1 FROM json_each(:attributes) AS wanted
    WHERE NOT EXISTS (
        SELECT 1 FROM json_each(instance.attributes) AS had
        WHERE had.key = wanted.value ->> 0 AND had.value = wanted.value ->> 1
    )
)

-- count
SELECT count(*) FROM instance WHERE {matches};

-- status_counts
SELECT json_group_object(status, many)
FROM (SELECT status, count(*) AS many FROM instance WHERE workflow = :workflow GROUP BY status);

-- recoverable
SELECT json_group_array(json_array(json_array(workflow, id), number))
FROM (
    SELECT workflow, id, number FROM instance
    WHERE status IN ('running', 'waitingForPause', 'rollingBack') AND number > :after
    ORDER BY number LIMIT :limit
);

-- restless
SELECT json_group_array(json_array(json_array(workflow, id), number))
FROM (
    SELECT workflow, id, number FROM instance
    WHERE status = 'waiting' AND waking = 1 AND number > :after
    ORDER BY number LIMIT :limit
);

-- unfinished
WITH RECURSIVE found (workflow) AS (
    SELECT min(workflow) FROM instance
    UNION ALL
    SELECT (SELECT min(instance.workflow) FROM instance WHERE instance.workflow > found.workflow)
    FROM found WHERE workflow IS NOT NULL
)
SELECT json_group_object(workflow, many)
FROM (
    SELECT workflow, (
        SELECT count(*) FROM instance
        WHERE instance.workflow = found.workflow
            AND status IN ('queued', 'running', 'waiting', 'waitingForPause', 'paused', 'rollingBack')
    ) AS many
    FROM found
    WHERE workflow NOT IN (SELECT value FROM json_each(:known))
)
WHERE many > 0;

-- queued
SELECT json_group_array(json_array(workflow, id))
FROM (
    SELECT workflow, id FROM instance
    WHERE status = 'queued' AND workflow = :workflow AND waking = :waking
    ORDER BY modified_ms, number LIMIT :limit
);

-- expired
SELECT json_group_array(json_array(json_array(workflow, id), number))
FROM (
    SELECT workflow, id, number FROM instance
    WHERE expires_ms <= :until_ms
    ORDER BY expires_ms, number LIMIT :limit
);

-- next_expiry_ms
SELECT min(at_ms)
FROM (
    SELECT (SELECT expires_ms FROM instance WHERE expires_ms IS NOT NULL ORDER BY expires_ms LIMIT 1) AS at_ms
    UNION ALL
    SELECT (
        SELECT retain_until_ms FROM hook
        WHERE stage = 'retained' AND retain_until_ms IS NOT NULL ORDER BY retain_until_ms LIMIT 1
    )
);

-- free_pages
SELECT freelist_count FROM pragma_freelist_count;

-- checkpoint
PRAGMA wal_checkpoint(PASSIVE);

-- due
SELECT json_group_array(json_array(workflow, id, number, kind, step, due_ms))
FROM (
    SELECT workflow, id, timer.number, kind, step, due_ms
    FROM timer CROSS JOIN instance ON instance.number = timer.number
    WHERE status IN ('waiting', 'running') AND due_ms <= :until_ms
        AND (due_ms, timer.number, kind, step) > (:after_ms, :after_number, :after_kind, :after_step)
    ORDER BY due_ms, timer.number, kind, step LIMIT :limit
);

-- next_due_ms
SELECT (
    SELECT due_ms FROM timer CROSS JOIN instance ON instance.number = timer.number
    WHERE status IN ('waiting', 'running') AND due_ms > :after_ms
    ORDER BY due_ms LIMIT 1
);

-- last_ticks
SELECT json_group_array(json_array(workflow, cron, last_ms)) FROM schedule;

-- holders
SELECT json_group_array(json_array(
    hook_id, hook.scope, hook.token, workflow, instance_id, created_ms, metadata, retain_until_ms, is_webhook, schema, stage
))
FROM json_each(:tokens) AS named
CROSS JOIN hook ON hook.scope = named.value ->> 0 AND hook.token = named.value ->> 1;

-- hooks
SELECT json_group_array(json_array(
    hook_id, scope, token, workflow, instance_id, created_ms, metadata, retain_until_ms, is_webhook, schema, stage
))
FROM (
    SELECT * FROM hook
    WHERE (:workflow IS NULL OR workflow = :workflow)
        AND (:instance_id IS NULL OR instance_id = :instance_id)
        AND (created_ms, hook_id) > (:after_ms, :after_id)
    ORDER BY created_ms, hook_id LIMIT :limit
);

-- forget_tokens
DELETE FROM hook WHERE stage = 'retained' AND retain_until_ms <= :until_ms;

-- seed
SELECT value FROM seed;

-- stream_states
SELECT json_group_array(json_array(
    number,
    stream,
    coalesce((SELECT max(place) + 1 FROM chunk WHERE chunk.number = asked.number AND chunk.stream = asked.stream), 0),
    EXISTS (SELECT 1 FROM closed_stream AS closed WHERE closed.number = asked.number AND closed.stream = asked.stream)
))
FROM (SELECT value ->> 0 AS number, value ->> 1 AS stream FROM json_each(:streams)) AS asked;

-- streams
SELECT
    (SELECT number FROM instance WHERE workflow = :workflow AND id = :id),
    (
        SELECT json_group_array(json_array(number, stream, length, closed))
        FROM (
            SELECT number, stream, max(length) AS length, max(closed) AS closed
            FROM (
                SELECT number, stream, max(place) + 1 AS length, 0 AS closed
                FROM instance CROSS JOIN chunk USING (number)
                WHERE workflow = :workflow AND id = :id
                GROUP BY stream
                UNION ALL
                SELECT number, stream, 0, 1
                FROM instance CROSS JOIN closed_stream USING (number)
                WHERE workflow = :workflow AND id = :id
            )
            WHERE unicode(stream) <> 31
            GROUP BY stream
        )
    );

-- chunks
WITH owner AS MATERIALIZED (
    SELECT number, status, started_ms FROM instance WHERE workflow = :workflow AND id = :id
),
-- Their places alone: the values of those that are too many for a page are not read.
page AS MATERIALIZED (
    SELECT number, place, sum(size_bytes) OVER (ORDER BY place) AS total_bytes
    FROM (
        SELECT number, place, size_bytes
        FROM owner CROSS JOIN chunk USING (number)
        WHERE stream = :stream AND place >= :first
        ORDER BY place LIMIT :limit
    )
)
SELECT
    number,
    status,
    started_ms,
    coalesce((SELECT max(place) + 1 FROM chunk WHERE chunk.number = owner.number AND stream = :stream), 0),
    EXISTS (SELECT 1 FROM closed_stream AS closed WHERE closed.number = owner.number AND stream = :stream),
    (
        SELECT json_group_array(json_array(number, stream, place, step, attempt, value))
        FROM (
            SELECT chunk.number, stream, chunk.place, step, attempt, value
            FROM page CROSS JOIN chunk USING (number, place)
            WHERE stream = :stream AND (total_bytes <= :most_bytes OR place = :first)
            ORDER BY place
        )
    )
FROM owner;

-- outputs
SELECT chunk.number, stream, place, step, attempt, chunk.value
FROM json_each(:keys) AS named
CROSS JOIN instance ON instance.workflow = named.value ->> 0 AND instance.id = named.value ->> 1
CROSS JOIN chunk ON chunk.number = instance.number
WHERE unicode(stream) = 31
ORDER BY chunk.number, stream, place;

-- add_code
INSERT INTO dynamic_code (hash, manifest, created_ms) VALUES (:hash, :manifest, :created_ms)
ON CONFLICT DO NOTHING;

-- add_version
INSERT INTO dynamic_version (tenant, name, version, hash, created_ms)
VALUES (:tenant, :name, :version, :hash, :created_ms)
ON CONFLICT DO NOTHING;

-- manifest
SELECT (SELECT manifest FROM dynamic_code WHERE hash = :hash);

-- version
SELECT json_group_array(json_array(tenant, name, version, hash, created_ms))
FROM (
    SELECT * FROM dynamic_version
    WHERE tenant = :tenant AND name = :name AND (:version IS NULL OR version = :version)
    ORDER BY number DESC LIMIT 1
);

-- versions
SELECT json_group_array(json_array(tenant, name, version, hash, created_ms))
FROM (
    SELECT * FROM dynamic_version
    WHERE (:tenant IS NULL OR tenant = :tenant) AND (:name IS NULL OR name = :name)
    ORDER BY number
);
