-- compatible
--
-- Requests of each API key, and of all keys of an organization, in a minute (since 1970, by the clock of PostgreSQL). Processes add
-- what they have counted every second; old minutes are deleted. Not logged: a failover may lose the counts of a minute.
create unlogged table keyhook.request_counts (
  minute  integer not null,
  -- A key or an organization.
  subject text collate "C" not null,
  count   integer not null,
  primary key (minute, subject)
) with (fillfactor = 50);

-- What one organization may have in place of the settings; null: the setting. A process of an older version knows the settings only.
create table keyhook.organization_quotas (
  org_id           text collate "C" primary key references keyhook.organizations,
  keys             integer check (keys >= 0),
  webhooks         integer check (webhooks >= 0),
  databases        integer check (databases >= 0),
  members          integer check (members >= 1),
  database_bytes   bigint check (database_bytes >= 0),
  archive_bytes    bigint check (archive_bytes >= 0),
  key_requests     integer check (key_requests >= 1),
  requests         integer check (requests >= 1),
  changed_at       timestamptz not null default clock_timestamp()
);
-- Every process reads what was changed since it last looked.
create index organization_quotas_changed on keyhook.organization_quotas (changed_at);
