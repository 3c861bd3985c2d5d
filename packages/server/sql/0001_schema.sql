-- breaking
--
-- The first schema of Keyhook. This file is frozen: a change is a new file, 0002_….sql and so on. The first line of each says
-- whether a node that does not know it may run on its schema (compatible) or must be stopped before (breaking).
--
-- Ids are TypeIDs kept as text: what a person sees in a response is what the row holds. Collation "C" makes their byte order the
-- order of time (UUIDv7) and a comparison a memcmp. Tables with a row per delivery use integers and UUIDs inside, and no foreign
-- keys: a check per row would cost as much as the row.

-- Organizations, users and roles ---------------------------------------------------------------------------------------------

-- Customers.
create table keyhook.organizations (
  id         text collate "C" primary key,
  -- No control characters: the look-up of tokens separates fields by them.
  name       text not null check (name !~ '[[:cntrl:]]'),
  created_at timestamptz not null default now()
);

-- People. Removed users stay as rows, because keys and audit entries name them.
create table keyhook.users (
  id         text collate "C" primary key,
  email      text not null,
  name       text,
  -- The `sub` of the operator's OpenID issuer, where there is one.
  subject    text collate "C",
  -- Who confirmed that the address is theirs. Null: nobody has. Such a user came by an invitation, and belongs to no other
  -- organization than `invited_to`.
  verified_by text check (verified_by in ('operator', 'openid', 'email')),
  invited_to text collate "C" references keyhook.organizations,
  created_at timestamptz not null default now(),
  removed_at timestamptz,
  present    boolean not null generated always as (removed_at is null) stored,
  unique (id, present),
  check (verified_by is not null or (invited_to is not null and subject is null))
);
-- Only A to Z are folded: by Unicode rules a Kelvin sign is a k, and its owner could log in as the user with the k.
create unique index users_email on keyhook.users (lower(email collate "C")) where removed_at is null and verified_by is not null;
-- An address that nobody confirmed is taken in one organization only: otherwise whoever invites could keep its owner out of others.
create unique index users_unverified_email on keyhook.users (lower(email collate "C"), invited_to)
  where removed_at is null and verified_by is null;
create unique index users_subject on keyhook.users (subject) where removed_at is null;

-- Who belongs to which organization, with which role.
create table keyhook.memberships (
  org_id     text collate "C" not null references keyhook.organizations,
  user_id    text collate "C" not null,
  -- Always true, and part of the foreign key: a removed user cannot have a membership.
  present    boolean not null default true check (present),
  role       text not null check (role in ('owner', 'admin', 'member')),
  created_at timestamptz not null default now(),
  primary key (org_id, user_id),
  unique (org_id, user_id, role),
  foreign key (user_id, present) references keyhook.users (id, present)
);
create index memberships_user on keyhook.memberships (user_id, org_id);

-- API keys, by the SHA-256 of the key.
create table keyhook.api_keys (
  org_id     text collate "C" not null references keyhook.organizations,
  id         text collate "C" not null,
  name       text not null,
  key_prefix text collate "C" not null,
  hash       bytea not null check (length(hash) = 32),
  created_by text collate "C" not null references keyhook.users,
  -- The key that the creation was authenticated with; null for a login token. Both keys act as the same user.
  created_by_key text collate "C",
  -- The creator's role now; null while they are no member. The foreign key keeps it so in the transaction that changes the
  -- membership, so that authentication reads this one row.
  role       text,
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  primary key (org_id, id),
  unique (org_id, key_prefix),
  foreign key (org_id, created_by_key) references keyhook.api_keys,
  foreign key (org_id, created_by, role) references keyhook.memberships (org_id, user_id, role)
    on update cascade on delete set null (role)
);
-- Authentication uses this index alone. Revoked keys are not in it; a hash index has no levels to descend.
create index api_keys_active_hash on keyhook.api_keys using hash (hash) where revoked_at is null and role is not null;
create index api_keys_active on keyhook.api_keys (org_id, id) where revoked_at is null;
create index api_keys_of_member on keyhook.api_keys (org_id, created_by);
create index api_keys_of_key on keyhook.api_keys (org_id, created_by_key) where created_by_key is not null;

-- When each key was last used. A table of its own, so that recording a use makes no new version of the key's row.
create table keyhook.api_key_uses (
  org_id       text collate "C" not null,
  id           text collate "C" not null,
  last_used_at timestamptz not null,
  primary key (org_id, id),
  foreign key (org_id, id) references keyhook.api_keys
) with (fillfactor = 70);

-- Tokens for /operator/v1. The token itself is a signed JWT with this id and is not stored; one without a row here is refused.
create table keyhook.operator_tokens (
  id         text collate "C" primary key,
  name       text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- The operator tokens that issued and revoked it; null: the command line.
  created_by text collate "C",
  revoked_at timestamptz,
  revoked_by text collate "C"
);

-- Idempotency-Key of creations, with the answer but without its secrets. Written by the transaction that creates; kept for a day.
create table keyhook.idempotency_keys (
  -- Whose key it is: an organization and a user, or the operator.
  scope        text collate "C" not null,
  key          text collate "C" not null,
  request_hash text collate "C" not null,
  status       integer,
  location     text,
  body         text,
  created_at   timestamptz not null default now(),
  primary key (scope, key)
);
create index idempotency_keys_created on keyhook.idempotency_keys (created_at);

-- Sessions of the web console, by the SHA-256 of the secret in their cookie. Signing out deletes the row, and every login token of
-- the session is refused from then on.
create table keyhook.console_sessions (
  id          text collate "C" primary key,
  secret_hash bytea not null unique check (length(secret_hash) = 32),
  -- Null: the operator.
  user_id     text collate "C" references keyhook.users,
  created_at  timestamptz not null default now(),
  -- Moves with every use, up to a limit from the creation.
  expires_at  timestamptz not null
);
create index console_sessions_user on keyhook.console_sessions (user_id);

-- Codes that a terminal exchanges for a login token once, after a person has confirmed it in the console.
create table keyhook.console_codes (
  code_hash  bytea primary key check (length(code_hash) = 32),
  session_id text collate "C" not null references keyhook.console_sessions on delete cascade,
  -- SHA-256 of the verifier, which only the terminal has.
  challenge  bytea not null check (length(challenge) = 32),
  expires_at timestamptz not null
);

-- Links that sign in to the console once.
create table keyhook.console_links (
  secret_hash bytea primary key check (length(secret_hash) = 32),
  -- Null: the operator.
  user_id     text collate "C" references keyhook.users,
  expires_at  timestamptz not null
);

-- Invitations to an organization, until they are accepted, withdrawn or expired. The link holds the secret.
create table keyhook.invitations (
  org_id      text collate "C" not null references keyhook.organizations,
  id          text collate "C" not null,
  email       text not null,
  role        text not null check (role in ('owner', 'admin', 'member')),
  secret_hash bytea not null unique check (length(secret_hash) = 32),
  created_by  text collate "C" not null references keyhook.users,
  created_at  timestamptz not null default now(),
  expires_at  timestamptz not null,
  primary key (org_id, id)
);

-- Who changed what.
create table keyhook.audit_entries (
  -- No reference: checking it locked the organization's row, which took a sixth of what accepting an event costs PostgreSQL.
  org_id     text collate "C" not null,
  id         text collate "C" not null,
  at         timestamptz not null default now(),
  action     text not null,
  actor_kind text not null check (actor_kind in ('key', 'login', 'operator')),
  user_id    text collate "C",
  -- The key's id, or the login token's jti.
  credential text collate "C",
  address    text,
  target_id  text collate "C" not null,
  details    jsonb not null default '{}',
  primary key (org_id, id)
);
-- One for each filter of the audit log, in the order of the list. Keys and the operator make few of the entries.
create index audit_entries_action on keyhook.audit_entries (org_id, action, id);
create index audit_entries_user on keyhook.audit_entries (org_id, user_id, id) where user_id is not null;
create index audit_entries_key on keyhook.audit_entries (org_id, credential, id) where actor_kind = 'key';
create index audit_entries_operator on keyhook.audit_entries (org_id, id) where actor_kind = 'operator';

-- Webhooks and their deliveries ----------------------------------------------------------------------------------------------

-- Webhooks. Deleted ones stay as rows without their secret.
create table keyhook.webhooks (
  org_id        text collate "C" not null references keyhook.organizations,
  id            text collate "C" not null,
  url           text not null,
  event_types   text[] not null,
  -- Since when it has these event types: tells why an older event did not go to it.
  types_since   timestamptz not null default now(),
  description   text,
  -- AES-256-GCM under the master key that secret_key_id names.
  secret_key_id text collate "C",
  secret_box    bytea,
  -- During a rotation: the secret of before, which deliveries are signed with too until the overlap ends. Erased after that.
  old_key_id    text collate "C",
  old_box       bytea,
  rotated_at    timestamptz,
  overlap_until timestamptz,
  -- The specified signature, of which there is one, is made with the new secret already.
  switched      boolean not null default false,
  created_by    text collate "C" not null references keyhook.users,
  created_at    timestamptz not null default now(),
  deleted_at    timestamptz,
  -- Counts changes of what is sent and how. The lane has the same number; the two are written together.
  version       integer not null default 0,
  -- Deliveries per second; null: no limit.
  rate_limit    real check (rate_limit > 0),
  -- The lane's id, so that publishing reads this table alone.
  lane_id       bigint generated always as identity,
  primary key (org_id, id),
  check ((deleted_at is null) = (secret_box is not null)),
  check ((secret_key_id is null) = (secret_box is null)),
  check (deleted_at is null or old_box is null),
  check (num_nulls(old_key_id, old_box, rotated_at, overlap_until) in (0, 4))
);
create index webhooks_rotated on keyhook.webhooks (overlap_until) where overlap_until is not null;
create index webhooks_existing on keyhook.webhooks (org_id, id) where deleted_at is null;

-- Event types that the operator has declared beside the six of the interface. Those that were removed stay as rows, because
-- webhooks and stored events name them.
create table keyhook.event_types (
  name        text collate "C" primary key,
  description text not null,
  -- JSON texts: the JSON Schema of the event's data, and an example of it.
  schema      text not null,
  example     text not null,
  removed_at  timestamptz
);

-- URLs that webhooks had before, and until when: attempts are shown with the one that was called.
create table keyhook.earlier_urls (
  lane_id bigint not null,
  until   timestamptz not null,
  url     text not null,
  primary key (lane_id, until)
);

-- One row per organization that has published. A publisher holds its lock until it commits, so sequence numbers have no gaps and
-- become visible in order: a reader of "everything after 41" is never overtaken by a late 40.
create table keyhook.event_counters (
  org_id        text collate "C" primary key references keyhook.organizations,
  -- The engine's number, which counts every event.
  last_seq      bigint not null default 0,
  -- The public number, which does not count test events.
  last_sequence bigint not null default 0
) with (fillfactor = 50);

-- Events with their exact body.
create table keyhook.events (
  org_id     text collate "C" not null,
  seq        bigint not null,
  id         text collate "C" not null,
  type       text not null,
  -- Exactly what is sent and signed. JSON text holds no NUL, so text keeps every byte of it.
  body       text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- A test event that was sent to one webhook.
  sample     boolean not null default false,
  -- The public number. Test events have none.
  sequence   bigint,
  -- The trace that it was published in (W3C Trace Context); null unless traces are exported.
  traceparent text,
  primary key (org_id, seq),
  unique (org_id, id),
  check (sample = (sequence is null))
);
create index events_created on keyhook.events (org_id, created_at);
-- A list of one type, or of the attempts of one, must not read all others.
create index events_type on keyhook.events (org_id, type, seq);
create unique index events_sequence on keyhook.events (org_id, sequence) where sequence is not null;

-- The newest public number that retention has deleted, so that nobody takes what is left for everything. Not a column of the
-- counter: retention must not wait for publishers.
create table keyhook.expired_events (
  org_id        text collate "C" primary key,
  last_sequence bigint not null
);

-- One row per publishing transaction, deleted once lanes know of it. Publishers must not lock lanes, and dispatchers must not lock
-- counters: this table stands between them.
create table keyhook.wakes (
  org_id    text collate "C" not null,
  first_seq bigint not null,
  last_seq  bigint not null,
  primary key (org_id, first_seq)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- A lane is one webhook's queue, leased whole by one dispatcher at a time.
create table keyhook.lanes (
  id                  bigint primary key,
  org_id              text collate "C" not null,
  webhook_id          text collate "C" not null,
  -- Newest delivery that this lane was woken for.
  head_seq            bigint not null default 0,
  -- Newest delivery whose first attempt was begun.
  cursor_seq          bigint not null default 0,
  -- Counts redelivery requests. Release compares it, so that none is missed between two reads.
  redelivery_requests integer not null default 0,
  -- When a dispatcher should look at this lane: while free, when work is due; while leased, when the lease expires. So one index
  -- finds new work, retries and the lanes of dead dispatchers. Null: nothing to do.
  due_at              timestamptz,
  lease_owner         text collate "C",
  -- The fence. Grows with every lease; a write with an older token changes nothing.
  lease_token         bigint not null default 0,
  -- Start time of the server that granted the lease. A standby that takes over may lack the last commits, so no lease outlives
  -- its server.
  lease_server        timestamptz,
  -- The version of the webhook's settings. Beginning compares it, so that no attempt begins with settings of before a change.
  version             integer not null default 0,
  -- Nothing is begun before then. A free lane that has work is due then, so that it goes on by itself.
  paused_until        timestamptz,
  -- Set when the webhook is deleted: nothing is begun any more.
  ended_at            timestamptz,
  unique (org_id, webhook_id),
  foreign key (org_id, webhook_id) references keyhook.webhooks
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
create index lanes_due on keyhook.lanes (due_at) where due_at is not null;

-- One row per event and webhook, never updated.
create table keyhook.deliveries (
  org_id            text collate "C" not null,
  event_seq         bigint not null,
  lane_id           bigint not null,
  -- The event's public number, and that of the lane's delivery before it. A test event has none and passes the other one on.
  sequence          bigint,
  previous_sequence bigint,
  primary key (org_id, event_seq, lane_id)
);
create index deliveries_lane on keyhook.deliveries (lane_id, event_seq);

-- Attempts whose request may be on the wire: inserted before it leaves, deleted when its outcome is recorded.
create table keyhook.in_flight (
  lane_id     bigint not null,
  event_seq   bigint not null,
  org_id      text collate "C" not null,
  id          uuid not null,
  lease_token bigint not null,
  -- Counts all attempts of the delivery, and those since its schedule started (again, after a redelivery).
  attempt     integer not null,
  try         integer not null,
  started_at  timestamptz not null,
  primary key (lane_id, event_seq)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

-- Deliveries that wait for their next attempt.
create table keyhook.retries (
  lane_id   bigint not null,
  event_seq bigint not null,
  org_id    text collate "C" not null,
  due_at    timestamptz not null,
  attempt   integer not null,
  try       integer not null,
  primary key (lane_id, event_seq)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
create index retries_due on keyhook.retries (lane_id, due_at);

-- Attempts that have ended; only appended to. The id is a UUIDv7 and so a time: partitions are weeks of ids.
create table keyhook.attempts (
  lane_id           bigint not null,
  id                uuid not null,
  org_id            text collate "C" not null,
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
  -- Null when the dispatcher died before the outcome was known.
  request_headers   text,
  response_status   integer,
  response_headers  text,
  response_body     text,
  response_complete boolean,
  error_code        text,
  error_detail      text,
  next_attempt_at   timestamptz,
  primary key (lane_id, id)
) partition by range (id);
create index attempts_event on keyhook.attempts (lane_id, event_seq);
-- The health of a webhook counts failures and finds the last one, however many attempts succeeded since.
create index attempts_failed on keyhook.attempts (lane_id, status, id) where status <> 'succeeded';

-- Requests to redeliver everything in a time range that never succeeded. They continue after a restart.
create table keyhook.recoveries (
  org_id         text collate "C" not null,
  id             text collate "C" not null,
  lane_id        bigint not null,
  since          timestamptz not null,
  until          timestamptz not null,
  -- Deliveries up to this event were examined, of those up to last_seq.
  cursor_seq     bigint not null default 0,
  last_seq       bigint not null,
  redelivered    bigint not null default 0,
  -- Everything was examined, and only these are left, because an attempt of each was in flight.
  looked_through boolean not null default false,
  passed_over    bigint[] not null default '{}',
  created_at     timestamptz not null default now(),
  stepped_at     timestamptz,
  finished_at    timestamptz,
  primary key (org_id, id)
);
create index recoveries_open on keyhook.recoveries (org_id, id) where finished_at is null;
create index recoveries_stepped on keyhook.recoveries (org_id, stepped_at);

-- Publishes events of one or several organizations. Functions, because the next publisher of an organization waits until this one
-- commits: statements from Node would hold the locks for more round trips. Statements of a function see what was committed before
-- each of them, so deliveries go to the webhooks that exist once the locks are held.
--
-- `orgs` are in the order of their ids, so that two publishers never wait for each other. Event n belongs to `orgs[places[n]]`,
-- whose event number `turns[n]` it is. `traces` is empty, or has one for each event. Subscripts instead of joins: the planner does
-- not know how long the arrays are, and would compare each event with each organization.
--
-- This part writes. `before_seqs` and `before_sequences` are the counters, which the caller has locked; null where it has not, and
-- then nothing is written for that organization.
create function keyhook.publish_locked(
  orgs text[], counts int[], before_seqs bigint[], before_sequences bigint[],
  places int[], turns int[], ids text[], types text[], bodies text[], traces text[]
) returns void
language plpgsql as $$
begin
  update keyhook.event_counters c set last_seq = c.last_seq + o.events, last_sequence = c.last_sequence + o.events
  from unnest(orgs, counts, before_seqs) as o (id, events, before_seq)
  where c.org_id = o.id and o.before_seq is not null;
  insert into keyhook.events (org_id, seq, id, type, body, sequence, traceparent)
  select orgs[e.place], before_seqs[e.place] + e.turn, e.id, e.type, e.body, before_sequences[e.place] + e.turn, e.traceparent
  from unnest(places, turns, ids, types, bodies, traces) as e (place, turn, id, type, body, traceparent)
  where before_seqs[e.place] is not null;
  insert into keyhook.wakes (org_id, first_seq, last_seq)
  select o.id, o.before_seq + 1, o.before_seq + o.events from unnest(orgs, counts, before_seqs) as o (id, events, before_seq)
  where o.before_seq is not null and o.events > 0;
  with addressed as materialized (
    select w.lane_id, e.place, e.turn, lag(e.turn) over (partition by w.lane_id order by e.turn) as previous_turn
    from unnest(places, turns, types) as e (place, turn, type)
    -- `offset 0`: one look-up in the index for each event, whatever the planner expects of the arrays.
    cross join lateral (
      select w.lane_id from keyhook.webhooks w
      where w.org_id = orgs[e.place] and w.deleted_at is null and e.type = any (w.event_types) offset 0
    ) as w
    where before_seqs[e.place] is not null
  )
  insert into keyhook.deliveries (org_id, event_seq, lane_id, sequence, previous_sequence)
  select orgs[a.place], before_seqs[a.place] + a.turn, a.lane_id, before_sequences[a.place] + a.turn, case
    when a.previous_turn is not null then before_sequences[a.place] + a.previous_turn
    -- For the first of each lane alone: one look-up in the index.
    else (
      select coalesce(d.sequence, d.previous_sequence) from keyhook.deliveries d
      where d.lane_id = a.lane_id order by d.event_seq desc limit 1
    )
  end
  from addressed a;
end
$$;

-- Waits for the other publishers of the organizations, `lock_ms` for each of them if it is not null.
--
-- Returns null if one of the organizations is unknown. `named` is empty, or says of each event whether the caller chose its id: the
-- positions of those that exist already are returned, and then nothing is written.
create function keyhook.publish(
  orgs text[], counts int[], places int[], turns int[], ids text[], types text[], bodies text[], traces text[],
  named boolean[], lock_ms int
) returns int[]
language plpgsql as $$
declare
  before_seqs      bigint[];
  before_sequences bigint[];
  taken            int[] := '{}';
  lock_ms_before   text := current_setting('lock_timeout');
begin
  if lock_ms is not null then
    perform set_config('lock_timeout', lock_ms::text, true);
  end if;
  for attempt in 1..2 loop
    select array_agg(c.last_seq order by o.n), array_agg(c.last_sequence order by o.n) into before_seqs, before_sequences
    from unnest(orgs) with ordinality as o (id, n)
    left join lateral (
      select c.last_seq, c.last_sequence from keyhook.event_counters c where c.org_id = o.id offset 0 for update
    ) as c on true;
    exit when array_position(before_seqs, null) is null;
    if attempt = 2 then
      return null;
    end if;
    -- Organizations that have never published have no counter.
    insert into keyhook.event_counters (org_id)
    select o.id from keyhook.organizations o where o.id = any (orgs) order by o.id
    on conflict (org_id) do nothing;
  end loop;
  -- What follows waits for no publisher, only for short locks, such as those for extending a table.
  perform set_config('lock_timeout', lock_ms_before, true);
  if named <> '{}' then
    -- `offset 0`: one index look-up for each name, never a scan of the organization's history.
    taken := array(
      select e.n from unnest(places, ids, named) with ordinality as e (place, id, is_named, n)
      cross join lateral (select from keyhook.events s where s.org_id = orgs[e.place] and s.id = e.id offset 0) as s
      where e.is_named
    );
  end if;
  if taken = '{}' then
    perform keyhook.publish_locked(orgs, counts, before_seqs, before_sequences, places, turns, ids, types, bodies, traces);
  end if;
  return taken;
end
$$;

-- Waits for nobody: leaves out organizations that another session holds or that have never published, and those with so many
-- webhooks that the others would wait for their deliveries. Returns those that were left out.
create function keyhook.publish_where_free(
  orgs text[], counts int[], places int[], turns int[], ids text[], types text[], bodies text[], traces text[]
) returns text[]
language plpgsql as $$
declare
  before_seqs      bigint[];
  before_sequences bigint[];
  left_out         text[];
begin
  select array_agg(c.last_seq order by o.n), array_agg(c.last_sequence order by o.n), array_agg(o.id) filter (where c.last_seq is null)
  into before_seqs, before_sequences, left_out
  from unnest(orgs) with ordinality as o (id, n)
  left join lateral (
    select c.last_seq, c.last_sequence
    from keyhook.event_counters c
    where c.org_id = o.id and (
      select count(*) from (select from keyhook.webhooks w where w.org_id = o.id and w.deleted_at is null limit 101) as w
    ) <= 100
    offset 0
    for update skip locked
  ) as c on true;
  perform keyhook.publish_locked(orgs, counts, before_seqs, before_sequences, places, turns, ids, types, bodies, traces);
  return coalesce(left_out, '{}');
end
$$;

-- Partitions of attempts are added and dropped while Keyhook runs, by a role that may only read and write. These run with the
-- rights of the role that migrates, and only for roles that were granted them.
create function keyhook.add_attempts_partition(name text, first_id uuid, end_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if name !~ '^attempts_[0-9]{8}$' then raise exception '% is not the name of a partition', name; end if;
  -- Created first and attached then: created as a partition, it would wait for every reader, and all deliveries behind it.
  execute format('create table keyhook.%I (like keyhook.attempts including all)', name);
  execute format('alter table keyhook.attempts attach partition keyhook.%I for values from (%L) to (%L)', name, first_id, end_id);
end
$$;

create function keyhook.drop_attempts_partition(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if name !~ '^attempts_[0-9]{8}$' then raise exception '% is not the name of a partition', name; end if;
  execute format('drop table if exists keyhook.%I', name);
end
$$;

revoke execute on function keyhook.add_attempts_partition(text, uuid, uuid), keyhook.drop_attempts_partition(text) from public;

-- Databases, backups, restores and invoices ----------------------------------------------------------------------------------

-- Machines that hold databases, when each was last seen, and the prices it bills with.
create table keyhook.nodes (
  id               text collate "C" primary key,
  databases_max    integer not null,
  seen_at          timestamptz not null default clock_timestamp(),
  currency         text,
  hour_price_minor bigint,
  -- draining: gets no databases and gives away those it has. forgotten: lost for good; it never runs a database again.
  state            text not null default 'active' check (state in ('active', 'draining', 'forgotten')),
  host             text,
  -- Which store its archives are in, the same for nodes that share one; null: it archives no WAL.
  store            text,
  -- Its available databases whose servers do not run.
  down             text[] not null default '{}'
);

-- The authority that signs the certificates of databases, one for all nodes. Its private key is sealed under a master key.
create table keyhook.certificate_authority (
  is_only     boolean primary key default true check (is_only),
  certificate text not null,
  key_id      text not null,
  key_box     bytea not null,
  created_at  timestamptz not null default now()
);

-- Customers' databases. `node` is the machine whose disk holds the files; jobs about the row go there.
create table keyhook.databases (
  org_id            text collate "C" not null references keyhook.organizations,
  id                text collate "C" not null,
  name              text not null,
  status            text not null check (status in ('provisioning', 'available', 'failed', 'deleting', 'deleted')),
  node              text collate "C",
  host              text,
  port              integer,
  -- The node that it is leaving, until it is served again; then only `node` has or gets it.
  moving_from       text collate "C",
  -- PostgreSQL's SCRAM verifier, until the instance has it. The password is stored nowhere.
  password_verifier text,
  failure           text,
  -- Its own backup schedule; null: the operator's.
  backup_every_hours integer check (backup_every_hours > 0),
  backups_kept      integer check (backups_kept > 0),
  -- Null: the limit of its node's settings.
  storage_limit_bytes bigint check (storage_limit_bytes > 0),
  created_by        text collate "C" not null references keyhook.users,
  created_at        timestamptz not null default now(),
  deleted_at        timestamptz,
  primary key (org_id, id),
  check (status = 'provisioning' or password_verifier is null),
  check (status <> 'available' or (node is not null and host is not null and port is not null)),
  check ((status = 'deleted') = (deleted_at is not null))
);
create index databases_existing on keyhook.databases (org_id, id) where status <> 'deleted';
create index databases_moving on keyhook.databases (moving_from) where moving_from is not null;
create index databases_of_node on keyhook.databases (node, id) where status <> 'deleted';

-- What a node measured of each of its databases. Written by the node only, and often: nothing else is in the row.
create table keyhook.database_stats (
  org_id              text collate "C" not null,
  database_id         text collate "C" not null,
  storage_used_bytes  bigint not null,
  storage_limit_bytes bigint not null,
  storage_state       text not null check (storage_state in ('normal', 'read_only', 'stopped')),
  storage_message     text,
  measured_at         timestamptz not null,
  -- What the database itself says; null before the first time.
  size_bytes          bigint,
  connections         integer,
  connections_max     integer,
  activity_at         timestamptz,
  primary key (org_id, database_id),
  foreign key (org_id, database_id) references keyhook.databases
) with (fillfactor = 50);

-- Backups, requested or scheduled.
create table keyhook.backups (
  org_id       text collate "C" not null references keyhook.organizations,
  id           text collate "C" not null,
  database_id  text collate "C" not null,
  node         text collate "C" not null,
  -- base: where the archived WAL of the database starts; not shown to anyone.
  origin       text not null check (origin in ('requested', 'scheduled', 'base')),
  status       text not null check (status in ('running', 'completed', 'failed', 'deleting', 'deleted')),
  -- Progress in bytes of the database's files. size_bytes is the finished archive.
  bytes_done   bigint not null default 0,
  bytes_total  bigint,
  size_bytes   bigint,
  -- Of a base: what the WAL after it takes, up to the next base. The WAL after the last one is counted in wal_archives.
  wal_bytes    bigint not null default 0,
  -- Null if it is not an archive of Keyhook's own, but a backup that an orchestrator keeps.
  sha256       text,
  -- The master key that the archive is encrypted under; null if it is not encrypted.
  key_id       text collate "C",
  -- Where the WAL in the archive begins and ends, and when it ended by the clock of the database.
  start_lsn    pg_lsn,
  stop_lsn     pg_lsn,
  stopped_at   timestamptz,
  failure      text,
  created_by   text collate "C" references keyhook.users,
  created_at   timestamptz not null default now(),
  finished_at  timestamptz,
  primary key (org_id, id),
  foreign key (org_id, database_id) references keyhook.databases,
  check (status <> 'completed' or size_bytes is not null)
);
-- A base does not get in the way of a backup that somebody asks for: they are taken one after the other.
create unique index backups_one_at_a_time on keyhook.backups (org_id, database_id, (origin = 'base'))
  where status = 'running';
create index backups_existing on keyhook.backups (org_id, id) where status <> 'deleted';
-- Every start asks which master keys archives need.
create index backups_key_ids on keyhook.backups (key_id) where key_id is not null and status <> 'deleted';
create index backups_of_database on keyhook.backups (org_id, database_id, id) where status <> 'deleted';
-- Every node asks each minute which databases are due for a backup and which backups exceed the number kept.
create index backups_scheduled on keyhook.backups (org_id, database_id, created_at) where origin = 'scheduled';
create index backups_scheduled_completed on keyhook.backups (node, origin, org_id, database_id, id desc)
  where origin in ('scheduled', 'base') and status = 'completed';

-- The archived WAL of a database: everything from one position up to another. A gap starts it again.
create table keyhook.wal_archives (
  org_id         text collate "C" not null,
  database_id    text collate "C" not null,
  from_lsn       pg_lsn not null,
  until_lsn      pg_lsn not null,
  -- Everything that was committed until then is in it, by the clock of the database, and before this position.
  archived_until timestamptz not null,
  committed_lsn  pg_lsn not null,
  -- What begins here or later is encrypted, whatever the setting is now, and a plain object in its place is forged. Null: nothing is.
  encrypted_from pg_lsn,
  -- Stored bytes since a base was last begun because of them.
  stored_bytes   bigint not null default 0,
  primary key (org_id, database_id),
  foreign key (org_id, database_id) references keyhook.databases
) with (fillfactor = 70);

-- Restores of a backup into a new database.
create table keyhook.restores (
  org_id      text collate "C" not null references keyhook.organizations,
  id          text collate "C" not null,
  backup_id   text collate "C" not null,
  database_id text collate "C" not null,
  -- Then the archived WAL after the backup is replayed up to this time; null: the backup alone.
  recover_to  timestamptz,
  status      text not null check (status in ('running', 'completed', 'failed')),
  bytes_done  bigint not null default 0,
  bytes_total bigint,
  failure     text,
  created_by  text collate "C" not null references keyhook.users,
  created_at  timestamptz not null default now(),
  finished_at timestamptz,
  primary key (org_id, id),
  foreign key (org_id, backup_id) references keyhook.backups,
  foreign key (org_id, database_id) references keyhook.databases
);
create index restores_of_backup on keyhook.restores (org_id, backup_id) where status = 'running';

-- Metered time: from the time a database accepts connections to the request to delete it. Written with the status.
create table keyhook.database_usage (
  org_id      text collate "C" not null,
  database_id text collate "C" not null,
  started_at  timestamptz not null,
  ended_at    timestamptz,
  -- Bytes on disk, summed over the seconds that they were there.
  storage_byte_seconds bigint not null default 0,
  primary key (org_id, database_id),
  foreign key (org_id, database_id) references keyhook.databases,
  check (ended_at is null or ended_at >= started_at)
);

-- Invoices, one a month and organization, in minor units of a currency.
create table keyhook.invoices (
  org_id      text collate "C" not null references keyhook.organizations,
  id          text collate "C" not null,
  month       text collate "C" not null check (month ~ '^\d{4}-(0[1-9]|1[0-2])$'),
  status      text not null check (status in ('issued', 'paid')),
  currency    text collate "C" not null,
  total_minor bigint not null check (total_minor >= 0),
  issued_at   timestamptz not null default now(),
  paid_at     timestamptz,
  primary key (org_id, id),
  constraint invoices_one_a_month unique (org_id, month),
  check ((status = 'paid') = (paid_at is not null))
);
-- The operator names an invoice without its organization.
create index invoices_id on keyhook.invoices (id);

-- Lines of invoices, with the database's name at that time.
create table keyhook.invoice_lines (
  org_id           text collate "C" not null,
  invoice_id       text collate "C" not null,
  database_id      text collate "C" not null,
  name             text not null,
  seconds          bigint not null check (seconds > 0),
  hour_price_minor bigint not null check (hour_price_minor >= 0),
  amount_minor     bigint not null check (amount_minor >= 0),
  primary key (org_id, invoice_id, database_id),
  foreign key (org_id, invoice_id) references keyhook.invoices
);
