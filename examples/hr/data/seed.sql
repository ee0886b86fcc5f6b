INSERT INTO employees (employee_id, name, vacation_days) VALUES
    ('e-1042', 'Nadia Brandt', 28),
    ('e-1077', 'Marcus Lee', 25),
    ('e-1101', 'Ines Duarte', 30),
    ('e-1120', 'Oskar Lind', 26);

INSERT INTO vacations (number, employee_id, start_date, end_date, days, status) VALUES
    (12, 'e-1042', '2027-02-15', '2027-02-19', 5, 'planned'),
    (15, 'e-1042', '2027-07-12', '2027-07-23', 10, 'planned'),
    (16, 'e-1077', '2027-05-03', '2027-05-07', 5, 'planned'),
    (18, 'e-1077', '2027-09-06', '2027-09-08', 3, 'cancelled'),
    (21, 'e-1120', '2027-01-04', '2027-01-22', 15, 'planned'),
    (22, 'e-1120', '2027-08-02', '2027-08-12', 9, 'planned');
