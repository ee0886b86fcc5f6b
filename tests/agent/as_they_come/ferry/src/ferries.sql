create table ferry (harbour text, leaves text);
insert into ferry values ('north', '09:10'), ('north', '17:40'), ('south', '08:00');
