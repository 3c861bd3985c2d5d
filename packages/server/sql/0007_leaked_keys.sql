-- compatible
--
-- API keys that were found where others can read them: when that was reported first, and where it was.
alter table keyhook.api_keys
  add column leaked_at timestamptz,
  add column leaked_url text,
  add constraint api_keys_leaked check (leaked_at is not null or leaked_url is null);
-- Those that are not in `api_keys_any_hash`: a key is looked up by its hash also after its end. Creating one costs nothing more.
create index api_keys_ended_hash on keyhook.api_keys using hash (coalesce(hash, restricted_hash))
  where revoked_at is not null or role is null;
