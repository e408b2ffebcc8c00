-- Dynamic workflows and logic flags: what code and what rules an instance was created under.

ALTER TABLE instance ADD COLUMN code TEXT; -- the hash in dynamic_code; NULL: the project's own code
ALTER TABLE instance ADD COLUMN logic INTEGER NOT NULL DEFAULT 1; -- the number of the engine's rules

-- What tenants have published, by the hash of its content. Nothing is ever changed here.
CREATE TABLE dynamic_code (
    hash TEXT PRIMARY KEY,
    manifest TEXT NOT NULL, -- {"main": ..., "modules": {...}}
    created_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE dynamic_version (
    number INTEGER PRIMARY KEY, -- the order of publishing
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    hash TEXT NOT NULL REFERENCES dynamic_code,
    created_ms INTEGER NOT NULL,
    UNIQUE (tenant, name, version)
) STRICT;
