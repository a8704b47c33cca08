-- The index of one source. `entry.id` is part * 2^32 + the number of its record in the file, from 1
-- (the line number): it stays the same when the index is rebuilt.
CREATE TABLE part (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    format TEXT NOT NULL,
    read INTEGER NOT NULL,      -- bytes that were read
    records INTEGER NOT NULL,   -- lines that were read
    head BLOB NOT NULL,         -- hash of the start of the file
    tail BLOB NOT NULL,         -- hash of the bytes before `read`
    size INTEGER NOT NULL,      -- of the file when it was last at rest; -1 before that
    changed INTEGER NOT NULL    -- its modification time then, in nanoseconds
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    length INTEGER NOT NULL,
    status TEXT NOT NULL,
    is_outcome INTEGER NOT NULL,  -- 1: the outcome of its rollout; 0: superseded by another record
    task INTEGER,
    repeat INTEGER,
    attempt INTEGER,
    reward REAL,
    success INTEGER,
    kind TEXT,
    cause INTEGER REFERENCES cause (id),
    steps INTEGER,
    tool_calls INTEGER,
    input_tokens INTEGER,
    output_tokens INTEGER,
    seconds REAL,
    started REAL,
    model TEXT,
    ending TEXT,
    task_key TEXT,
    agent TEXT,
    domain TEXT,
    difficulty INTEGER
);
CREATE INDEX entry_of_task ON entry (task, repeat);
CREATE INDEX entry_of_status ON entry (status, is_outcome);
CREATE INDEX entry_of_kind ON entry (kind, cause, is_outcome) WHERE kind IS NOT NULL;
CREATE TABLE words (            -- a table of its own, so that charts do not read it
    entry INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    detail TEXT NOT NULL,
    fields TEXT NOT NULL        -- a JSON object of short values
);
CREATE TABLE sign (             -- what deserves a look
    name TEXT NOT NULL,
    entry INTEGER NOT NULL,
    PRIMARY KEY (name, entry)
) WITHOUT ROWID;
CREATE TABLE tool (
    name TEXT NOT NULL,
    entry INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (name, entry)
) WITHOUT ROWID;
CREATE TABLE version (          -- policy versions
    name TEXT NOT NULL,
    entry INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    PRIMARY KEY (name, entry)
) WITHOUT ROWID;
CREATE TABLE cause (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (kind, text)
);
CREATE TABLE field (            -- the names in `words.fields`
    name TEXT PRIMARY KEY,
    records INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE task (             -- from the inputs of the run
    task INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    length INTEGER NOT NULL,
    task_key TEXT NOT NULL,
    title TEXT NOT NULL,
    agent TEXT NOT NULL,
    domain TEXT NOT NULL,
    difficulty INTEGER
);
CREATE TABLE kept (             -- responses that are kept for one version of the index
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;  -- schema, version, generation, ready
