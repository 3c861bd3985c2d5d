-- Publishers that say what they have published: which numbers it got, and for which lanes it is. Whoever holds those lanes need
-- not read it then. `announced_max`: where there are more deliveries than that, none is named. Arrays that belong together have
-- the same length: delivery n is of event `event_seqs[n]`, in lane `lane_ids[n]`.
create type keyhook.published as (
  taken        text[],
  newest       bigint,
  event_seqs   bigint[],
  lane_ids     bigint[],
  published_ms bigint,
  server       text
);

-- Which server this is, by when it started (see keyhook.lanes.lease_server), and which of its databases: a copy of this one gives the
-- same numbers to other events.
create function keyhook.server() returns text
language sql stable as $$
  select (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text || ' ' || current_database()
$$;

create function keyhook.publish_and_say(
  for_org text, ids text[], types text[], bodies text[], named text[], announced_max integer
) returns keyhook.published
language plpgsql as $$
declare
  said keyhook.published;
begin
  -- Locked until the transaction ends: that is what makes the sequence gapless, and visible in order.
  insert into keyhook.event_counters as c (org_id, last_seq)
  select o.id, cardinality(ids) from keyhook.organizations o where o.id = for_org
  on conflict (org_id) do update set last_seq = c.last_seq + excluded.last_seq
  returning c.last_seq into said.newest;
  if not found then
    return said;
  end if;
  said.taken := '{}';
  if cardinality(ids) = 0 then
    return said;
  end if;
  if named <> '{}' then
    -- `offset 0`: one descent of the index for each, never a walk through all that the organization has said.
    said.taken := array(
      select e.id from unnest(named) as n (id)
      cross join lateral (select e.id from keyhook.events e where e.org_id = for_org and e.id = n.id offset 0) as e
    );
    if said.taken <> '{}' then
      update keyhook.event_counters c set last_seq = c.last_seq - cardinality(ids) where c.org_id = for_org;
      return said;
    end if;
  end if;
  insert into keyhook.events (org_id, seq, id, type, body)
  select for_org, said.newest - cardinality(ids) + e.n, e.id, e.type, e.body
  from unnest(ids, types, bodies) with ordinality as e (id, type, body, n);
  insert into keyhook.wakes (org_id, first_seq, last_seq)
  values (for_org, said.newest - cardinality(ids) + 1, said.newest);
  with written as (
    insert into keyhook.deliveries (org_id, event_seq, lane_id)
    select for_org, said.newest - cardinality(ids) + e.n, w.lane_id
    from unnest(types) with ordinality as e (type, n)
    join keyhook.webhooks w on w.org_id = for_org and w.deleted_at is null and e.type = any (w.event_types)
    returning event_seq, lane_id
  )
  select array_agg(w.event_seq), array_agg(w.lane_id) into said.event_seqs, said.lane_ids
  from (select event_seq, lane_id from written limit announced_max + 1) as w;
  said.published_ms := extract(epoch from clock_timestamp()) * 1000;
  said.server := keyhook.server();
  return said;
end
$$;

-- What nodes of versions before this one call.
create or replace function keyhook.publish(for_org text, ids text[], types text[], bodies text[], named text[]) returns text[]
language sql as $$ select (keyhook.publish_and_say(for_org, ids, types, bodies, named, 0)).taken $$;

-- `newest[n]` is of organization `free[n]`, and delivery n of `org_ids[n]`.
create type keyhook.published_where_free as (
  free         text[],
  newest       bigint[],
  org_ids      text[],
  event_seqs   bigint[],
  lane_ids     bigint[],
  published_ms bigint,
  server       text
);

create function keyhook.publish_where_free_and_say(
  orgs text[], ids text[], types text[], bodies text[], named text[], announced_max integer
) returns keyhook.published_where_free
language plpgsql as $$
declare
  said   keyhook.published_where_free;
  taken  text[] := '{}';
  counts bigint[];
begin
  -- Should there be something to wait for all the same, such as the organization itself in somebody's session: not for long.
  perform set_config('lock_timeout', '250ms', true);
  -- Compiling takes longer than all of this.
  perform set_config('jit', 'off', true);
  -- Locked until the transaction ends, as above.
  said.free := array(
    select c.org_id from (select distinct o.org_id from unnest(orgs) as o (org_id)) as o
    cross join lateral (
      select c.org_id from keyhook.event_counters c where c.org_id = o.org_id offset 0 for update skip locked
    ) as c
  );
  -- Other statements: they see what there is now that the locks are held.
  if array_remove(named, null) <> '{}' then
    taken := array(
      select n.org_id from unnest(orgs, named) as n (org_id, id)
      cross join lateral (select from keyhook.events e where e.org_id = n.org_id and e.id = n.id offset 0) as e
    );
  end if;
  select array_agg(o.org_id), array_agg(o.events) into said.free, counts
  from (
    -- Those with the fewest first, so that they are left out last.
    select o.org_id, o.events, sum(o.events * w.webhooks) over (order by o.events * w.webhooks, o.org_id) as deliveries
    from (
      select o.org_id, count(*) as events from unnest(orgs) as o (org_id)
      where o.org_id = any (said.free) and o.org_id <> all (taken)
      group by o.org_id
    ) as o
    cross join lateral (
      select count(*) as webhooks
      from (select from keyhook.webhooks w where w.org_id = o.org_id and w.deleted_at is null limit 201) as w
    ) as w
    where o.events * w.webhooks <= 200
  ) as o
  where o.deliveries <= 2000;
  if said.free is null then
    said.free := '{}';
    return said;
  end if;
  with counted as (
    update keyhook.event_counters c set last_seq = c.last_seq + counts[array_position(said.free, c.org_id)]
    where c.org_id = any (said.free)
    returning c.org_id, c.last_seq - counts[array_position(said.free, c.org_id)] as before, c.last_seq
  ), numbered as materialized (
    select e.org_id, c.before + row_number() over (partition by e.org_id order by e.n) as seq, e.id, e.type, e.body
    from unnest(orgs, ids, types, bodies) with ordinality as e (org_id, id, type, body, n)
    join counted c on c.org_id = e.org_id
  ), noted as (
    insert into keyhook.events (org_id, seq, id, type, body) select n.org_id, n.seq, n.id, n.type, n.body from numbered n
  ), woken as (
    insert into keyhook.wakes (org_id, first_seq, last_seq) select c.org_id, c.before + 1, c.last_seq from counted c
  ), written as (
    insert into keyhook.deliveries (org_id, event_seq, lane_id)
    select n.org_id, n.seq, w.lane_id
    from numbered n
    cross join lateral (
      select w.lane_id from keyhook.webhooks w
      where w.org_id = n.org_id and w.deleted_at is null and n.type = any (w.event_types) offset 0
    ) as w
    returning org_id, event_seq, lane_id
  )
  select
    array(
      select c.last_seq from unnest(said.free) with ordinality as f (org_id, n) join counted c on c.org_id = f.org_id
      order by f.n
    ),
    array_agg(w.org_id), array_agg(w.event_seq), array_agg(w.lane_id)
  into said.newest, said.org_ids, said.event_seqs, said.lane_ids
  from (select * from written limit announced_max + 1) as w;
  said.published_ms := extract(epoch from clock_timestamp()) * 1000;
  said.server := keyhook.server();
  return said;
end
$$;

create or replace function keyhook.publish_where_free(orgs text[], ids text[], types text[], bodies text[], named text[])
returns text[]
language sql as $$ select (keyhook.publish_where_free_and_say(orgs, ids, types, bodies, named, 0)).free $$;
