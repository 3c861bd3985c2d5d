-- The delivery engine. Hot tables carry no foreign keys: a check per row would cost as much as the row, and everything
-- here is written by statements that have just read what they refer to. Keys that are joined and indexed a million
-- times are integers; ids for people stay outside.

-- One row per organization. A publisher holds its lock until it commits, so sequence numbers become visible in their
-- own order and without gaps: whoever reads "everything after 41" can never be overtaken by a late 40.
create table keyhook.event_counters (
  org_id   text collate "C" primary key references keyhook.organizations,
  last_seq bigint not null default 0
) with (fillfactor = 50);

-- What lanes have not been told yet: one row per publishing transaction, gone once a dispatcher has passed it on. Passing it
-- on is the dispatcher's work, because a publisher may stay open for a minute and must hold no lock that a delivery waits
-- for; and it touches no row that publishers lock, because a busy organization always has one of those.
create table keyhook.wakes (
  org_id    text collate "C" not null,
  first_seq bigint not null,
  last_seq  bigint not null,
  primary key (org_id, first_seq)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

create table keyhook.events (
  org_id     text collate "C" not null,
  seq        bigint not null,
  id         text collate "C" not null,
  type       text not null,
  -- Exactly what is sent and signed. JSON text holds no NUL, so text keeps every byte of it.
  body       text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- A sample that somebody asked for: it went to one webhook, whatever the others are subscribed to.
  sample     boolean not null default false,
  primary key (org_id, seq),
  unique (org_id, id)
);
create index events_created on keyhook.events (org_id, created_at);

-- The lane's key stands in the webhook too: fan-out reads one table, with no join for a planner without statistics to
-- get wrong (10,000 webhooks took it 15 s).
alter table keyhook.webhooks add column lane_id bigint generated always as identity;

-- A lane is one webhook's queue. Leased whole, by one dispatcher at a time.
create table keyhook.lanes (
  id          bigint not null,
  org_id      text collate "C" not null,
  webhook_id  text collate "C" not null,
  -- Newest delivery that a dispatcher has told this lane of.
  head_seq    bigint not null default 0,
  -- Newest delivery whose first attempt has been started.
  cursor_seq  bigint not null default 0,
  -- Counts requests to send something again. Release compares it, so that none falls between two looks.
  asked       integer not null default 0,
  -- When somebody should look at this lane: while free, when its next work is due; while leased, when the lease runs
  -- out. So one index finds new work, retries and the lanes of dead dispatchers alike. Null: nothing to do.
  due_at      timestamptz,
  lease_owner text collate "C",
  -- The fence. Grows with every lease; whoever shows an older one changes nothing.
  lease_token bigint not null default 0,
  -- Its webhook is deleted: nothing starts any more.
  ended_at    timestamptz,
  primary key (id, org_id),
  foreign key (org_id, webhook_id) references keyhook.webhooks
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
create unique index lanes_webhook on keyhook.lanes (org_id, webhook_id);
create index lanes_due on keyhook.lanes (due_at) where due_at is not null;

insert into keyhook.lanes (id, org_id, webhook_id) select lane_id, org_id, id from keyhook.webhooks where deleted_at is null;

-- One per event and webhook: the key says so. Never updated; what became of it stands in the next two tables.
create table keyhook.deliveries (
  org_id    text collate "C" not null,
  event_seq bigint not null,
  lane_id   bigint not null,
  primary key (org_id, event_seq, lane_id)
);
create index deliveries_lane on keyhook.deliveries (lane_id, event_seq);

-- Deliveries that were started and are not finished: an attempt is on its way, or a retry waits for its time.
-- Small and busy, so that the table of attempts is only ever appended to.
create table keyhook.unsettled (
  org_id      text collate "C" not null,
  lane_id     bigint not null,
  event_seq   bigint not null,
  -- When to try again; -infinity while an attempt is on its way.
  due_at      timestamptz not null,
  lease_token bigint not null,
  -- Counts every attempt of this delivery, and those since the schedule began (again, after a redelivery).
  attempt     integer not null,
  try         integer not null,
  attempt_id  uuid not null,
  started_at  timestamptz not null,
  primary key (lane_id, event_seq, org_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
create index unsettled_due on keyhook.unsettled (lane_id, due_at);

-- Every attempt that has come to an end. The id is a UUIDv7 and so a time: partitions are ranges of ids, one a week,
-- made ahead and dropped by the dispatchers.
create table keyhook.attempts (
  org_id            text collate "C" not null,
  lane_id           bigint not null,
  id                uuid not null,
  event_seq         bigint not null,
  attempt           integer not null,
  status            text not null check (status in ('succeeded', 'failed', 'interrupted')),
  started_at        timestamptz not null,
  duration_us       integer,
  dns_us            integer,
  connect_us        integer,
  tls_us            integer,
  first_byte_us     integer,
  address           text,
  request_headers   text not null,
  response_status   integer,
  response_headers  text,
  response_body     text,
  response_complete boolean,
  error_code        text,
  error_detail      text,
  next_attempt_at   timestamptz,
  primary key (lane_id, id, org_id)
) partition by range (id);
create index attempts_event on keyhook.attempts (lane_id, event_seq);

-- Redelivering everything that never succeeded in some stretch of time: work that goes on after a restart.
create table keyhook.recoveries (
  org_id      text collate "C" not null,
  id          text collate "C" not null,
  lane_id     bigint not null,
  since       timestamptz not null,
  until       timestamptz not null,
  -- Deliveries up to this event have been looked at.
  cursor_seq  bigint not null default 0,
  redelivered bigint not null default 0,
  created_at  timestamptz not null default now(),
  finished_at timestamptz,
  primary key (org_id, id)
);
create index recoveries_open on keyhook.recoveries (org_id, id) where finished_at is null;
