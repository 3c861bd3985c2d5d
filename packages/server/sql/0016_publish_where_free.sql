-- Publishing for many organizations at once: event n is of `orgs[n]`, and `named[n]` is its id if somebody else chose it. Nobody is
-- waited for, so that no organization waits for another. Nothing is written for an organization that another publisher is at
-- work in, or that never published before, or where a name is taken; nor for those that have so many webhooks that the others
-- would have to wait for them. It says for whom it has written.
create function keyhook.publish_where_free(orgs text[], ids text[], types text[], bodies text[], named text[]) returns text[]
language plpgsql as $$
declare
  free   text[];
  taken  text[] := '{}';
  counts bigint[];
begin
  -- Should there be something to wait for all the same, such as the organization itself in somebody's session: not for long.
  perform set_config('lock_timeout', '250ms', true);
  -- Compiling takes longer than all of this.
  perform set_config('jit', 'off', true);
  -- Locked until the transaction ends, as in keyhook.publish.
  free := array(
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
  select array_agg(o.org_id), array_agg(o.events) into free, counts
  from (
    -- Those with the fewest first, so that they are left out last.
    select o.org_id, o.events, sum(o.events * w.webhooks) over (order by o.events * w.webhooks, o.org_id) as deliveries
    from (
      select o.org_id, count(*) as events from unnest(orgs) as o (org_id)
      where o.org_id = any (free) and o.org_id <> all (taken)
      group by o.org_id
    ) as o
    cross join lateral (
      select count(*) as webhooks
      from (select from keyhook.webhooks w where w.org_id = o.org_id and w.deleted_at is null limit 201) as w
    ) as w
    where o.events * w.webhooks <= 200
  ) as o
  where o.deliveries <= 2000;
  if free is null then
    return '{}';
  end if;
  with counted as (
    update keyhook.event_counters c set last_seq = c.last_seq + counts[array_position(free, c.org_id)]
    where c.org_id = any (free)
    returning c.org_id, c.last_seq - counts[array_position(free, c.org_id)] as before, c.last_seq
  ), numbered as materialized (
    select e.org_id, c.before + row_number() over (partition by e.org_id order by e.n) as seq, e.id, e.type, e.body
    from unnest(orgs, ids, types, bodies) with ordinality as e (org_id, id, type, body, n)
    join counted c on c.org_id = e.org_id
  ), said as (
    insert into keyhook.events (org_id, seq, id, type, body) select n.org_id, n.seq, n.id, n.type, n.body from numbered n
  ), woken as (
    insert into keyhook.wakes (org_id, first_seq, last_seq) select c.org_id, c.before + 1, c.last_seq from counted c
  )
  insert into keyhook.deliveries (org_id, event_seq, lane_id)
  select n.org_id, n.seq, w.lane_id
  from numbered n
  cross join lateral (
    select w.lane_id from keyhook.webhooks w
    where w.org_id = n.org_id and w.deleted_at is null and n.type = any (w.event_types) offset 0
  ) as w;
  return free;
end
$$;
