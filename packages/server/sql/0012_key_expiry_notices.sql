-- compatible
--
-- Before its end an API key is announced up to three times: `notice_at` is the next. It belongs to the end that the key has now.
alter table keyhook.api_keys add column notice_at timestamptz;

-- 14, 7 and 1 days before the end. Hours, because a day of a time zone may have 23 or 25.
create function keyhook.next_key_notice(expires_at timestamptz, since timestamptz) returns timestamptz
language sql stable as $$
  select min(expires_at - ahead) from unnest(array['336 hours', '168 hours', '24 hours']::interval[]) as ahead
  where expires_at - ahead > since
$$;

-- A trigger: every statement that sets an end sets the notice, also those of an older node.
create function keyhook.set_key_notice() returns trigger
language plpgsql as $$
begin
  new.notice_at := keyhook.next_key_notice(new.expires_at, clock_timestamp());
  return new;
end
$$;
create trigger api_keys_inserted before insert on keyhook.api_keys
  for each row when (new.expires_at is not null) execute function keyhook.set_key_notice();
create trigger api_keys_end_changed before update of expires_at on keyhook.api_keys
  for each row when (new.expires_at is distinct from old.expires_at) execute function keyhook.set_key_notice();

update keyhook.api_keys set notice_at = keyhook.next_key_notice(expires_at, now())
where revoked_at is null and expires_at > now();
create index api_keys_noticed on keyhook.api_keys (notice_at) where revoked_at is null and notice_at is not null;
