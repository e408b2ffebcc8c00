-- Output streams. The chunks of a stream have the places 0, 1, 2 and so on, without gaps.
CREATE TABLE chunk (
    number INTEGER NOT NULL REFERENCES instance ON DELETE CASCADE,
    stream TEXT NOT NULL, -- char(31) and a step's label: what that step has returned, in pieces
    place INTEGER NOT NULL,
    step TEXT, -- the step that wrote it, such as charge-1; NULL: no callback of a step
    attempt INTEGER,
    size_bytes INTEGER NOT NULL, -- of the value; before it, so that it is read without it
    value TEXT NOT NULL,
    PRIMARY KEY (number, stream, place)
) STRICT;

-- Streams that take no more chunks.
CREATE TABLE closed_stream (
    number INTEGER NOT NULL REFERENCES instance ON DELETE CASCADE,
    stream TEXT NOT NULL,
    step TEXT, -- the step that closed it; NULL: no step
    PRIMARY KEY (number, stream)
) STRICT, WITHOUT ROWID;
