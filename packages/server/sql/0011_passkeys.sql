-- compatible
--
-- Passkeys of people (W3C Web Authentication), and what a session shows in the list of one's sessions. A process of an older version
-- opens sessions without these, and offers no passkeys.
create table keyhook.passkeys (
  id            text collate "C" primary key,
  user_id       text collate "C" not null references keyhook.users,
  -- The host that the passkey belongs to. It works at no other.
  rp_id         text collate "C" not null,
  credential_id text collate "C" not null,
  -- COSE.
  public_key    bytea not null,
  -- The authenticator's own count of its uses. It stays 0 in those that are synchronized.
  sign_count    bigint not null,
  transports    text[] not null,
  name          text not null,
  created_at    timestamptz not null default now(),
  last_used_at  timestamptz,
  unique (rp_id, credential_id)
);
create index passkeys_user on keyhook.passkeys (user_id);

-- Challenges that a passkey has answered, until they expire: each works once.
create table keyhook.passkey_answers (
  challenge_hash bytea primary key check (length(challenge_hash) = 32),
  expires_at     timestamptz not null
);

alter table keyhook.console_sessions
  -- How it was opened; null: by an older version.
  add column way text check (way in ('link', 'passkey', 'openid', 'mail', 'invitation')),
  -- Where, as the browser told us when it signed in.
  add column address text,
  add column user_agent text,
  add column used_at timestamptz not null default now(),
  -- Whether the console offers to add a passkey in this session.
  add column offers_passkey boolean not null default false;
