-- Ids are TypeIDs kept as text: what a person sees in an answer is what stands in the row.
-- Collation "C" everywhere on ids: byte order is time order (UUIDv7), and comparison is a memcmp.

create table keyhook.organizations (
  id         text collate "C" primary key,
  -- No control characters: authentication tells fields apart by them.
  name       text not null check (name !~ '[[:cntrl:]]'),
  created_at timestamptz not null default now()
);

create table keyhook.users (
  id         text collate "C" primary key,
  email      text not null,
  name       text,
  -- The `sub` of the operator's OpenID issuer, where there is one.
  subject    text collate "C",
  created_at timestamptz not null default now(),
  -- Removed users stay as rows, because keys and audit entries go on naming them.
  removed_at timestamptz,
  present    boolean not null generated always as (removed_at is null) stored,
  unique (id, present)
);
create unique index users_email on keyhook.users (lower(email)) where removed_at is null;
create unique index users_subject on keyhook.users (subject) where removed_at is null;

create table keyhook.memberships (
  org_id     text collate "C" not null references keyhook.organizations,
  user_id    text collate "C" not null,
  -- Always true, and part of the foreign key: a removed user cannot have a membership.
  present    boolean not null default true check (present),
  role       text not null check (role in ('owner', 'admin', 'member')),
  created_at timestamptz not null default now(),
  primary key (org_id, user_id),
  unique (org_id, user_id, role),
  foreign key (user_id, present) references keyhook.users (id, present)
);
create index memberships_user on keyhook.memberships (user_id, org_id);

create table keyhook.api_keys (
  org_id     text collate "C" not null references keyhook.organizations,
  id         text collate "C" not null,
  name       text not null,
  key_prefix text collate "C" not null,
  hash       bytea not null check (length(hash) = 32),
  created_by text collate "C" not null references keyhook.users,
  -- The role its creator has now; null while they are no member. The foreign key keeps it so, in the transaction that
  -- changes the membership: authentication finds all it needs in this one row.
  role       text,
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  primary key (org_id, id),
  unique (org_id, key_prefix),
  foreign key (org_id, created_by, role) references keyhook.memberships (org_id, user_id, role)
    on update cascade on delete set null (role)
);

-- Authentication reads this one and nothing else of the table's indexes: a revoked key is not in it.
-- A hash index finds one key among a million as fast as among a thousand: it has no levels to descend.
-- It is not unique: a collision of SHA-256 is not a thing to plan for, and a global unique index would tie the table to one node.
create index api_keys_active_hash on keyhook.api_keys using hash (hash) where revoked_at is null and role is not null;
create index api_keys_active on keyhook.api_keys (org_id, id) where revoked_at is null;
create index api_keys_of_member on keyhook.api_keys (org_id, created_by);

-- Apart from the keys, so that noting uses neither waits for a change of the key nor makes new versions of its row.
create table keyhook.api_key_uses (
  org_id       text collate "C" not null,
  id           text collate "C" not null,
  last_used_at timestamptz not null,
  primary key (org_id, id),
  foreign key (org_id, id) references keyhook.api_keys
) with (fillfactor = 70); -- room for it to be updated in place

create table keyhook.webhooks (
  org_id        text collate "C" not null references keyhook.organizations,
  id            text collate "C" not null,
  url           text not null,
  event_types   text[] not null,
  -- AES-256-GCM under the master key that secret_key_id names; gone once the webhook is deleted.
  secret_key_id text collate "C",
  secret_box    bytea,
  created_by    text collate "C" not null references keyhook.users,
  created_at    timestamptz not null default now(),
  deleted_at    timestamptz,
  primary key (org_id, id),
  check ((deleted_at is null) = (secret_box is not null)),
  check ((secret_key_id is null) = (secret_box is null))
);
create index webhooks_existing on keyhook.webhooks (org_id, id) where deleted_at is null;
create index webhooks_secret_key on keyhook.webhooks (secret_key_id) where deleted_at is null;

create table keyhook.audit_entries (
  org_id     text collate "C" not null references keyhook.organizations,
  id         text collate "C" not null,
  at         timestamptz not null default now(),
  action     text not null,
  actor_kind text not null check (actor_kind in ('key', 'login', 'operator')),
  user_id    text collate "C",
  -- The key's id, or the login token's jti.
  credential text collate "C",
  address    text,
  target_id  text collate "C" not null,
  details    jsonb not null default '{}',
  primary key (org_id, id)
);
