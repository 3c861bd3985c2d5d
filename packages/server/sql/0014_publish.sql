-- Publishing, in one call: whoever publishes next in the organization waits until this one has committed, so nothing here
-- waits for the way to a client and back. A function and not one statement, because each statement of a function sees what
-- there is when its own turn comes: the webhooks that stand once the lock is held, not those from before the wait.
--
-- Null: there is no such organization. Of the ids in `named`, which somebody else chose, it says those that are taken
-- already; if there are any, nothing is written.
create function keyhook.publish(for_org text, ids text[], types text[], bodies text[], named text[]) returns text[]
language plpgsql as $$
declare
  newest bigint;
  taken  text[];
begin
  -- Locked until the transaction ends: that is what makes the sequence gapless, and visible in order.
  insert into keyhook.event_counters as c (org_id, last_seq)
  select o.id, cardinality(ids) from keyhook.organizations o where o.id = for_org
  on conflict (org_id) do update set last_seq = c.last_seq + excluded.last_seq
  returning c.last_seq into newest;
  if not found then
    return null;
  end if;
  if cardinality(ids) = 0 then
    return '{}';
  end if;
  if named <> '{}' then
    taken := array(select e.id from keyhook.events e where e.org_id = for_org and e.id = any (named));
    if taken <> '{}' then
      update keyhook.event_counters c set last_seq = c.last_seq - cardinality(ids) where c.org_id = for_org;
      return taken;
    end if;
  end if;
  insert into keyhook.events (org_id, seq, id, type, body)
  select for_org, newest - cardinality(ids) + e.n, e.id, e.type, e.body
  from unnest(ids, types, bodies) with ordinality as e (id, type, body, n);
  insert into keyhook.wakes (org_id, first_seq, last_seq) values (for_org, newest - cardinality(ids) + 1, newest);
  insert into keyhook.deliveries (org_id, event_seq, lane_id)
  select for_org, newest - cardinality(ids) + e.n, w.lane_id
  from unnest(types) with ordinality as e (type, n)
  join keyhook.webhooks w on w.org_id = for_org and w.deleted_at is null and e.type = any (w.event_types);
  return '{}';
end
$$;
