-- compatible
--
-- API keys may be restricted: to permissions, databases and networks (`restrictions`), and to a time (`expires_at`). A process of an
-- older version would let a restricted key do everything, so its hash stands in a column that such a process does not read: it
-- answers 401 for the key, and revokes it like any other.
alter table keyhook.api_keys
  alter column hash drop not null,
  add column restricted_hash bytea check (length(restricted_hash) = 32),
  -- {"permissions": […], "databases": […], "networks": […]}; a part that is absent restricts nothing.
  add column restrictions jsonb check (jsonb_typeof(restrictions) = 'object'),
  add column expires_at timestamptz,
  add constraint api_keys_one_hash check (num_nonnulls(hash, restricted_hash) = 1),
  add constraint api_keys_restricted check (
    (restricted_hash is not null) = (restrictions is not null or expires_at is not null)
  );
-- Authentication uses this index alone.
create index api_keys_any_hash on keyhook.api_keys using hash (coalesce(hash, restricted_hash))
  where revoked_at is null and role is not null;
-- Those whose end comes.
create index api_keys_expiring on keyhook.api_keys (expires_at) where revoked_at is null and expires_at is not null;

-- Requests that were refused because of their address, and the last one.
alter table keyhook.api_key_uses
  alter column last_used_at drop not null,
  add column refused_count bigint not null default 0,
  add column last_refused_at timestamptz,
  add column last_refused_address text;

-- The longest that a new key of the organization may last; null: as the operator has set it.
alter table keyhook.organizations add column key_days_max integer check (key_days_max between 1 and 3650);
