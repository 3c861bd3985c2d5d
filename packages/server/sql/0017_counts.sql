-- How many active keys, and how many webhooks, each organization has. Whoever adds one has to know, and counting them took
-- longer with each. Kept by the tables themselves, whoever writes to them, with the rights of whoever made them: an older process
-- that still runs knows nothing of this table.
create table keyhook.organization_counts (
  org_id   text collate "C" primary key references keyhook.organizations,
  api_keys bigint not null default 0,
  webhooks bigint not null default 0
) with (fillfactor = 50);

-- What is added, once for a statement: it may be a million.
create function keyhook.count_added() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_table_name = 'api_keys' then
    insert into keyhook.organization_counts as c (org_id, api_keys)
    select r.org_id, count(*) from added r where r.revoked_at is null group by r.org_id order by r.org_id
    on conflict (org_id) do update set api_keys = c.api_keys + excluded.api_keys;
  else
    insert into keyhook.organization_counts as c (org_id, webhooks)
    select r.org_id, count(*) from added r where r.deleted_at is null group by r.org_id order by r.org_id
    on conflict (org_id) do update set webhooks = c.webhooks + excluded.webhooks;
  end if;
  return null;
end
$$;

-- What ends, or is brought back by hand, one by one and last of all: when its transaction commits, so that nobody waits for the
-- rest of it. Called with how many keys and how many webhooks there are more of then.
create function keyhook.count_changed() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update keyhook.organization_counts c
  set api_keys = c.api_keys + tg_argv[0]::int, webhooks = c.webhooks + tg_argv[1]::int
  where c.org_id = old.org_id;
  return null;
end
$$;

-- Each locks its table until this is committed, so that what is counted below is all there is.
create trigger added after insert on keyhook.api_keys
  referencing new table as added for each statement execute function keyhook.count_added();
create constraint trigger revoked after update of revoked_at on keyhook.api_keys
  deferrable initially deferred for each row
  when (old.revoked_at is null and new.revoked_at is not null) execute function keyhook.count_changed('-1', '0');
create constraint trigger brought_back after update of revoked_at on keyhook.api_keys
  deferrable initially deferred for each row
  when (old.revoked_at is not null and new.revoked_at is null) execute function keyhook.count_changed('1', '0');
create constraint trigger removed after delete on keyhook.api_keys
  deferrable initially deferred for each row
  when (old.revoked_at is null) execute function keyhook.count_changed('-1', '0');

create trigger added after insert on keyhook.webhooks
  referencing new table as added for each statement execute function keyhook.count_added();
create constraint trigger deleted after update of deleted_at on keyhook.webhooks
  deferrable initially deferred for each row
  when (old.deleted_at is null and new.deleted_at is not null) execute function keyhook.count_changed('0', '-1');
create constraint trigger brought_back after update of deleted_at on keyhook.webhooks
  deferrable initially deferred for each row
  when (old.deleted_at is not null and new.deleted_at is null) execute function keyhook.count_changed('0', '1');
create constraint trigger removed after delete on keyhook.webhooks
  deferrable initially deferred for each row
  when (old.deleted_at is null) execute function keyhook.count_changed('0', '-1');

insert into keyhook.organization_counts (org_id, api_keys, webhooks)
select o.id,
  (select count(*) from keyhook.api_keys k where k.org_id = o.id and k.revoked_at is null),
  (select count(*) from keyhook.webhooks w where w.org_id = o.id and w.deleted_at is null)
from keyhook.organizations o;
