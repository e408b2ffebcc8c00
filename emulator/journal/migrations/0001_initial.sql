-- The journal, first format. Instants are milliseconds since 1970; values are JSON text.
-- To read it: SELECT * FROM log WHERE workflow = 'orders' AND id = '42';

PRAGMA application_id = 1464223053; -- "WFEM"

CREATE TABLE instance (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, not even after a delete
    workflow TEXT NOT NULL,
    id TEXT NOT NULL,
    status TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL,
    started_ms INTEGER,
    ended_ms INTEGER,
    waking INTEGER NOT NULL, -- queued: whether it goes before those that have never run
    expires_ms INTEGER, -- finished: until when it is kept
    source TEXT NOT NULL,
    schedule TEXT, -- {"cron": ..., "scheduled_ms": ...}
    success_retention_ms INTEGER,
    error_retention_ms INTEGER,
    params TEXT NOT NULL,
    UNIQUE (workflow, id)
) STRICT;

-- Listings, newest first; the number, which breaks ties, is the end of every index key.
CREATE INDEX instance_by_creation ON instance (workflow, created_ms);
CREATE INDEX instance_by_status ON instance (workflow, status, created_ms);

CREATE INDEX instance_to_recover ON instance (number)
WHERE status IN ('running', 'waitingForPause', 'rollingBack');

CREATE INDEX instance_in_queue ON instance (workflow, waking, modified_ms) WHERE status = 'queued';

CREATE INDEX instance_by_expiry ON instance (expires_ms) WHERE expires_ms IS NOT NULL;

-- Not WITHOUT ROWID: a body may have a megabyte, and rows that are appended are written faster.
CREATE TABLE entry (
    number INTEGER NOT NULL REFERENCES instance ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    event INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    step TEXT, -- such as charge-1; NULL: about the instance itself
    body TEXT NOT NULL,
    PRIMARY KEY (number, seq)
) STRICT;

-- Events that no wait has taken yet; seq is of the same count as the entries'.
CREATE TABLE mailbox (
    number INTEGER NOT NULL REFERENCES instance ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    payload TEXT, -- NULL: none was given
    delivery_id TEXT, -- what its sender calls it; NULL: nothing
    PRIMARY KEY (number, seq)
) STRICT;

CREATE TABLE timer (
    number INTEGER NOT NULL REFERENCES instance ON DELETE CASCADE,
    kind TEXT NOT NULL,
    step TEXT NOT NULL,
    due_ms INTEGER NOT NULL,
    PRIMARY KEY (number, kind, step)
) STRICT, WITHOUT ROWID;

CREATE INDEX timer_by_due ON timer (due_ms);

CREATE TABLE schedule (
    workflow TEXT NOT NULL, -- empty: a cron trigger of the Worker
    cron TEXT NOT NULL,
    last_ms INTEGER NOT NULL, -- ticks up to here are settled
    PRIMARY KEY (workflow, cron)
) STRICT, WITHOUT ROWID;

CREATE TABLE fact (
    event INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    step_kind TEXT -- the kind of step that it is about; NULL: the instance itself
) STRICT;

INSERT INTO fact (event, name, step_kind) VALUES
(0, 'WorkflowQueued', NULL),
(1, 'WorkflowStarted', NULL),
(2, 'WorkflowSucceeded', NULL),
(3, 'WorkflowFailed', NULL),
(4, 'WorkflowTerminated', NULL),
(5, 'StepStarted', 'do'),
(6, 'StepSucceeded', 'do'),
(7, 'StepFailed', 'do'),
(8, 'SleepStarted', 'sleep'),
(9, 'SleepCompleted', 'sleep'),
(10, 'AttemptStarted', 'do'),
(11, 'AttemptSucceeded', 'do'),
(12, 'AttemptFailed', 'do'),
(14, 'WaitStarted', 'waitForEvent'),
(15, 'WaitCompleted', 'waitForEvent'),
(16, 'WaitTimedOut', 'waitForEvent'),
(17, 'RollbackStarted', NULL),
(18, 'RollbackStepStarted', 'do'),
(19, 'RollbackAttemptStarted', 'do'),
(20, 'RollbackAttemptSucceeded', 'do'),
(21, 'RollbackAttemptFailed', 'do'),
(22, 'RollbackStepSucceeded', 'do'),
(23, 'RollbackStepFailed', 'do'),
(24, 'RollbackCompleted', NULL),
(25, 'RollbackFailed', NULL),
(26, 'WorkflowRunning', NULL),
(27, 'WorkflowPaused', NULL),
(28, 'WorkflowWaitingForPause', NULL),
(29, 'WorkflowWaiting', NULL),
(100, 'EventReceived', NULL),
(101, 'WaitAbandoned', 'waitForEvent'),
(102, 'AttemptInterrupted', 'do'),
(103, 'RollbackAttemptInterrupted', 'do');

-- An event that was taken shows with the wait that took it.
CREATE VIEW log AS
SELECT
    instance.workflow,
    instance.id,
    line.seq,
    strftime('%Y-%m-%d %H:%M:%f', line.at_ms / 1000.0, 'unixepoch') AS at,
    coalesce(fact.name, line.event) AS event,
    line.step,
    line.body
FROM (
    SELECT number, seq, at_ms, event, step, body FROM entry
    UNION ALL
    SELECT number, seq, at_ms, 100, NULL,
        json_object('event_type', event_type, 'payload', json(payload), 'delivery_id', delivery_id)
    FROM mailbox
) AS line
JOIN instance ON instance.number = line.number
LEFT JOIN fact ON fact.event = line.event
ORDER BY line.number, line.seq;
