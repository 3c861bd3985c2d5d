-- How many active keys, and how many webhooks, each organization has. Whoever adds one has to know, and counting them took
-- longer with each. Kept by the tables themselves, whoever writes to them: an older process that still runs, too.
create table keyhook.organization_counts (
  org_id   text collate "C" primary key references keyhook.organizations,
  api_keys bigint not null default 0,
  webhooks bigint not null default 0
) with (fillfactor = 50);

create function keyhook.count_api_keys() returns trigger
language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into keyhook.organization_counts as c (org_id, api_keys)
    select r.org_id, count(*) from after_rows r where r.revoked_at is null group by r.org_id order by r.org_id
    on conflict (org_id) do update set api_keys = c.api_keys + excluded.api_keys;
  else
    -- Nothing is changed for those whose number stays as it is, such as when a role changes: nobody has to wait for that.
    insert into keyhook.organization_counts as c (org_id, api_keys)
    select r.org_id, sum(r.change)
    from (
      select a.org_id, 1 as change from after_rows a where a.revoked_at is null
      union all
      select b.org_id, -1 from before_rows b where b.revoked_at is null
    ) as r
    group by r.org_id having sum(r.change) <> 0 order by r.org_id
    on conflict (org_id) do update set api_keys = c.api_keys + excluded.api_keys;
  end if;
  return null;
end
$$;

create function keyhook.count_webhooks() returns trigger
language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into keyhook.organization_counts as c (org_id, webhooks)
    select r.org_id, count(*) from after_rows r where r.deleted_at is null group by r.org_id order by r.org_id
    on conflict (org_id) do update set webhooks = c.webhooks + excluded.webhooks;
  else
    insert into keyhook.organization_counts as c (org_id, webhooks)
    select r.org_id, sum(r.change)
    from (
      select a.org_id, 1 as change from after_rows a where a.deleted_at is null
      union all
      select b.org_id, -1 from before_rows b where b.deleted_at is null
    ) as r
    group by r.org_id having sum(r.change) <> 0 order by r.org_id
    on conflict (org_id) do update set webhooks = c.webhooks + excluded.webhooks;
  end if;
  return null;
end
$$;

-- Each locks its table until this is committed, so that what is counted below is all there is. Rows are never deleted.
create trigger api_keys_added after insert on keyhook.api_keys
  referencing new table as after_rows for each statement execute function keyhook.count_api_keys();
create trigger api_keys_changed after update on keyhook.api_keys
  referencing old table as before_rows new table as after_rows for each statement execute function keyhook.count_api_keys();
create trigger webhooks_added after insert on keyhook.webhooks
  referencing new table as after_rows for each statement execute function keyhook.count_webhooks();
create trigger webhooks_changed after update on keyhook.webhooks
  referencing old table as before_rows new table as after_rows for each statement execute function keyhook.count_webhooks();

insert into keyhook.organization_counts (org_id, api_keys, webhooks)
select o.id,
  (select count(*) from keyhook.api_keys k where k.org_id = o.id and k.revoked_at is null),
  (select count(*) from keyhook.webhooks w where w.org_id = o.id and w.deleted_at is null)
from keyhook.organizations o;
