CREATE TABLE employees (
    employee_id   TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    vacation_days INTEGER NOT NULL        -- entitlement for 2027
);

CREATE TABLE vacations (
    number      INTEGER PRIMARY KEY,      -- request id V-<number>
    employee_id TEXT NOT NULL REFERENCES employees,
    start_date  TEXT NOT NULL,            -- YYYY-MM-DD
    end_date    TEXT NOT NULL,
    days        INTEGER NOT NULL,         -- working days, Monday to Friday
    status      TEXT NOT NULL CHECK (status IN ('planned', 'cancelled'))
);
