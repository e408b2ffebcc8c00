-- Hooks. A row is there as long as its token is kept from others; it can outlive its instance, hence no reference.

CREATE TABLE hook (
    hook_id TEXT PRIMARY KEY,
    scope TEXT NOT NULL, -- tokens are unique in a scope: a tenant's, or the empty one
    token TEXT NOT NULL,
    workflow TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    metadata TEXT NOT NULL,
    retain_until_ms INTEGER, -- until when the token is kept at least
    is_webhook INTEGER NOT NULL,
    schema TEXT, -- the class that payloads are checked against
    stage TEXT NOT NULL, -- live; retained: the instance has ended
    UNIQUE (scope, token)
) STRICT;

CREATE INDEX hook_by_instance ON hook (workflow, instance_id);

CREATE INDEX hook_by_retention ON hook (retain_until_ms) WHERE stage = 'retained';

-- What the tokens are made from that people do not choose.
CREATE TABLE seed (value TEXT NOT NULL) STRICT;

INSERT INTO seed (value) VALUES (lower(hex(randomblob(32))));

ALTER TABLE instance ADD COLUMN parent TEXT; -- the step of another instance that created it

INSERT INTO fact (event, name, step_kind) VALUES
(104, 'HookCreated', 'hook'),
(105, 'HookConflicted', 'hook'),
(106, 'HookBound', 'hook'),
(107, 'HookDisposed', 'hook'),
(108, 'HookReclaimed', 'hook'),
(109, 'AttributesChanged', NULL);
