-- compatible
--
-- Endpoints that fail. A process of an older version counts nothing and suspends nothing: it goes on with the schedule. It leaves
-- retries with attempt -1 alone, which are for test events that do not wait for their turn.
alter table keyhook.lanes
  -- Failed attempts since the last success, up to three. More are not counted, so that a webhook that goes on failing writes no row.
  add column failures smallint not null default 0 check (failures between 0 and 3),
  -- When the third one ended. Null: the webhook does not fail.
  add column failing_since timestamptz,
  -- Until then its deliveries wait, but for one an hour: `probe_at` is the next. A time that has passed stays until the next success:
  -- a webhook is suspended once.
  add column suspended_until timestamptz,
  add column probe_at timestamptz,
  add constraint lanes_failing check ((failing_since is not null) = (failures = 3)),
  add constraint lanes_suspended check (
    (suspended_until is null) = (probe_at is null) and (suspended_until is null or failing_since is not null)
  );
create index lanes_failing_since on keyhook.lanes (failing_since) where failing_since is not null;

-- Hours of failing after which the webhooks of an organization are suspended; 0: never. Null: the setting.
alter table keyhook.organizations
  add column suspend_after_hours integer check (suspend_after_hours between 0 and 720);

-- Webhooks that began to fail, were suspended or have recovered, until owners and other webhooks are told. Written by the statement
-- that settles an attempt, which must not wait for the organization's event counter.
create table keyhook.webhook_changes (
  id         bigint generated always as identity primary key,
  org_id     text collate "C" not null,
  webhook_id text collate "C" not null,
  kind       text not null check (kind in ('failing', 'suspended', 'recovered')),
  -- Since when it has failed.
  since      timestamptz not null,
  -- What the last failed attempt ended with.
  error      text,
  -- A suspension has ended: what waited is due.
  resumes    boolean not null default false,
  changed_at timestamptz not null default now()
);
