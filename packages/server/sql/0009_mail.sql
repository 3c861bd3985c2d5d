-- compatible
--
-- Mails wait here until a mail server has accepted them. The secret of a link is in no row: it is derived from a master key and the id
-- of the mail. A process of an older version sends nothing, and lets those who accept a mailed invitation join without confirming their
-- address.
create table keyhook.mails (
  id         uuid primary key default gen_random_uuid(),
  -- What it is about, and whom it is for, where these are known.
  org_id     text collate "C" references keyhook.organizations,
  user_id    text collate "C" references keyhook.users,
  address    text not null,
  kind       text collate "C" not null,
  data       jsonb not null default '{}',
  -- The master key of its link, since the first attempt.
  key_id     text collate "C",
  attempts   integer not null default 0,
  created_at timestamptz not null default now(),
  -- The next attempt, which also takes over from a process that ended in the middle of one.
  due_at     timestamptz not null default now(),
  send_by    timestamptz not null,
  last_error text
);
-- What somebody waits for goes first.
create index mails_due on keyhook.mails ((kind = 'notice'), due_at);

-- When a process with a mail server was last there. Nothing is queued while none is.
create table keyhook.mail_senders (
  is_only boolean primary key default true check (is_only),
  seen_at timestamptz not null
);

-- Mails per subject and hour (since 1970, by the clock of PostgreSQL). Not logged: a failover may forget an hour.
create unlogged table keyhook.mail_counts (
  hour    integer not null,
  subject text collate "C" not null,
  count   integer not null,
  primary key (hour, subject)
);

-- Links that confirm the address of a user, once.
create table keyhook.confirmation_links (
  secret_hash bytea primary key check (length(secret_hash) = 32),
  user_id     text collate "C" not null references keyhook.users,
  expires_at  timestamptz not null
);

-- The link went to the invited address and to nobody else, so whoever has it reads the mail of that address.
alter table keyhook.invitations add column mailed boolean not null default false;

-- The list of somebody's sessions says that this one began with a mail.
alter table keyhook.console_links add column mailed boolean not null default false;

-- The owners were told. Until the database has room again they are not told a second time.
alter table keyhook.database_stats add column nearly_full boolean not null default false;
