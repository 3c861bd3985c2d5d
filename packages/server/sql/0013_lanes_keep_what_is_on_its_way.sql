-- What is on its way stands in its lane's row, and no longer in rows of its own. Beginning an attempt writes the lane's row in
-- any case, to lock it and to move its cursor; a row per attempt, inserted before the request and deleted after it, with two
-- indexes, was a quarter of what a delivery cost PostgreSQL.

alter table keyhook.lanes
  -- Every attempt that the holder had begun and not settled when it last began one, a line each: the event's number, which
  -- attempt, which try, when in milliseconds, and its id. Those that have a row in `attempts` by now are over. Null: none.
  -- Text, because it is written thousands of times for each time that it is read.
  add column begun text,
  -- Which beginning of this lease that was. A statement that comes late, from a connection that was given up, shows an
  -- older number and changes nothing.
  add column begun_no bigint not null default 0;
-- Compressed or moved elsewhere only when a page could not take it.
alter table keyhook.lanes alter column begun set storage main;
alter table keyhook.lanes set (toast_tuple_target = 4080);

update keyhook.lanes l set begun = u.begun
from (
  select lane_id, org_id, string_agg(
    concat_ws(' ', event_seq, attempt, try, (extract(epoch from started_at) * 1000)::bigint, attempt_id), E'\n'
  ) as begun
  from keyhook.unsettled where due_at = '-infinity' group by lane_id, org_id
) u
where l.id = u.lane_id and l.org_id = u.org_id;

-- Attempts that are on their way.
create view keyhook.sending as
select l.org_id, l.id as lane_id, b.event_seq, b.attempt, b.try, b.started_at, b.id
from keyhook.lanes l
cross join lateral (
  select w[1]::bigint as event_seq, w[2]::integer as attempt, w[3]::integer as try,
    to_timestamp(w[4]::bigint / 1000.0) as started_at, w[5]::uuid as id
  from string_to_table(l.begun, E'\n') as line cross join lateral string_to_array(line, ' ') as w
) b
where l.begun is not null
  and not exists (select 1 from keyhook.attempts a where a.lane_id = l.id and a.id = b.id and a.org_id = l.org_id);

-- Deliveries that wait for their next attempt, because the last one failed or somebody asked for another.
create table keyhook.retries (
  org_id    text collate "C" not null,
  lane_id   bigint not null,
  event_seq bigint not null,
  due_at    timestamptz not null,
  -- Counts every attempt of this delivery so far, and those since the schedule began (again, after a redelivery).
  attempt   integer not null,
  try       integer not null,
  primary key (lane_id, event_seq, org_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
create index retries_due on keyhook.retries (lane_id, due_at);

insert into keyhook.retries (org_id, lane_id, event_seq, due_at, attempt, try)
select org_id, lane_id, event_seq, due_at, attempt, try from keyhook.unsettled where due_at > '-infinity';
drop table keyhook.unsettled;
