-- compatible
--
-- The largest size and the most connections of each hour, for the charts of the last seven days.
create table keyhook.database_history (
  org_id      text collate "C" not null,
  database_id text collate "C" not null,
  hour        timestamptz not null,
  size_bytes  bigint not null,
  connections integer not null,
  primary key (org_id, database_id, hour),
  foreign key (org_id, database_id) references keyhook.databases on delete cascade
) with (fillfactor = 50);
-- What is too old is deleted without reading the rest.
create index database_history_hour on keyhook.database_history (hour);
