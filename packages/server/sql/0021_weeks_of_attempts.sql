-- Weeks of attempts come and go while Keyhook runs, under a role that may only read and write: these do it with the rights of
-- whoever migrates. Not for everybody who can reach the schema: a week that is dropped is gone.
create function keyhook.add_week(name text, first_id uuid, end_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if name !~ '^attempts_[0-9]{8}$' then raise exception '% is not the name of a week', name; end if;
  -- Made first and attached then: made as a partition it would wait for every reader, a dump of an hour included, with all
  -- deliveries behind it.
  execute format('create table keyhook.%I (like keyhook.attempts including all)', name);
  execute format('alter table keyhook.attempts attach partition keyhook.%I for values from (%L) to (%L)', name, first_id, end_id);
end
$$;

create function keyhook.drop_week(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if name !~ '^attempts_[0-9]{8}$' then raise exception '% is not the name of a week', name; end if;
  execute format('drop table if exists keyhook.%I', name);
end
$$;

revoke execute on function keyhook.add_week(text, uuid, uuid), keyhook.drop_week(text) from public;
