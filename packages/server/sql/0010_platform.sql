-- Databases, backups, restores and invoices. `node` names the machine whose disk holds the files; jobs for a row go there.

create table keyhook.databases (
  org_id            text collate "C" not null references keyhook.organizations,
  id                text collate "C" not null,
  name              text not null,
  status            text not null check (status in ('provisioning', 'available', 'failed', 'deleting', 'deleted')),
  node              text collate "C",
  host              text,
  port              integer,
  -- What PostgreSQL itself keeps of a password (SCRAM), until the instance has it. The password is kept nowhere.
  password_verifier text,
  failure           text,
  created_by        text collate "C" not null references keyhook.users,
  created_at        timestamptz not null default now(),
  deleted_at        timestamptz,
  primary key (org_id, id),
  check (status = 'provisioning' or password_verifier is null),
  check (status <> 'available' or (node is not null and host is not null and port is not null)),
  check ((status = 'deleted') = (deleted_at is not null))
);
create index databases_existing on keyhook.databases (org_id, id) where status <> 'deleted';
create index databases_of_node on keyhook.databases (node, id) where status <> 'deleted';

create table keyhook.backups (
  org_id       text collate "C" not null references keyhook.organizations,
  id           text collate "C" not null,
  database_id  text collate "C" not null,
  node         text collate "C" not null,
  origin       text not null check (origin in ('requested', 'scheduled')),
  status       text not null check (status in ('running', 'completed', 'failed', 'deleting', 'deleted')),
  -- Bytes of the database's files read so far, of those known. size_bytes is the finished archive.
  bytes_done   bigint not null default 0,
  bytes_total  bigint,
  size_bytes   bigint,
  sha256       text,
  failure      text,
  created_by   text collate "C" references keyhook.users,
  created_at   timestamptz not null default now(),
  finished_at  timestamptz,
  primary key (org_id, id),
  foreign key (org_id, database_id) references keyhook.databases,
  check (status <> 'completed' or (size_bytes is not null and sha256 is not null))
);
create unique index backups_one_at_a_time on keyhook.backups (org_id, database_id) where status = 'running';
create index backups_existing on keyhook.backups (org_id, id) where status <> 'deleted';
create index backups_of_database on keyhook.backups (org_id, database_id, id) where status <> 'deleted';

create table keyhook.restores (
  org_id      text collate "C" not null references keyhook.organizations,
  id          text collate "C" not null,
  backup_id   text collate "C" not null,
  database_id text collate "C" not null,
  status      text not null check (status in ('running', 'completed', 'failed')),
  bytes_done  bigint not null default 0,
  bytes_total bigint,
  failure     text,
  created_by  text collate "C" not null references keyhook.users,
  created_at  timestamptz not null default now(),
  finished_at timestamptz,
  primary key (org_id, id),
  foreign key (org_id, backup_id) references keyhook.backups,
  foreign key (org_id, database_id) references keyhook.databases
);
create index restores_of_backup on keyhook.restores (org_id, backup_id) where status = 'running';

-- From the moment a database accepts connections to the moment its removal is asked for. Written with the status.
create table keyhook.database_usage (
  org_id      text collate "C" not null,
  database_id text collate "C" not null,
  started_at  timestamptz not null,
  ended_at    timestamptz,
  primary key (org_id, database_id),
  foreign key (org_id, database_id) references keyhook.databases,
  check (ended_at is null or ended_at >= started_at)
);

create table keyhook.invoices (
  org_id      text collate "C" not null references keyhook.organizations,
  id          text collate "C" not null,
  month       text collate "C" not null check (month ~ '^\d{4}-(0[1-9]|1[0-2])$'),
  status      text not null check (status in ('issued', 'paid')),
  currency    text collate "C" not null,
  total_minor bigint not null check (total_minor >= 0),
  issued_at   timestamptz not null default now(),
  paid_at     timestamptz,
  primary key (org_id, id),
  constraint invoices_one_a_month unique (org_id, month),
  check ((status = 'paid') = (paid_at is not null))
);
-- The operator names an invoice without its organization.
create index invoices_id on keyhook.invoices (id);

create table keyhook.invoice_lines (
  org_id           text collate "C" not null,
  invoice_id       text collate "C" not null,
  database_id      text collate "C" not null,
  -- As it was called when the invoice was made: an invoice does not change afterwards.
  name             text not null,
  seconds          bigint not null check (seconds > 0),
  hour_price_minor bigint not null check (hour_price_minor >= 0),
  amount_minor     bigint not null check (amount_minor >= 0),
  primary key (org_id, invoice_id, database_id),
  foreign key (org_id, invoice_id) references keyhook.invoices
);
