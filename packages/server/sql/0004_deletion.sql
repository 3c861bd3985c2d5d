-- compatible
--
-- Deleting organizations and users. The transaction of the request ends all access: no membership, invitation or event counter of a
-- deleted organization is left, and its keys are revoked. So a process of an older version, which does not read `deleted_at`, lets
-- nobody in either. Erasing what is stored follows, in many small transactions.
alter table keyhook.organizations add column deleted_at timestamptz;
create index organizations_deleted on keyhook.organizations (id) where deleted_at is not null;

-- What is kept: ids, times and numbers of rows.
create table keyhook.deletions (
  id           text collate "C" primary key,
  kind         text not null check (kind in ('organization', 'user')),
  -- The organization or user. No reference: the row of an organization is erased.
  target_id    text collate "C" not null unique,
  requested_at timestamptz not null default clock_timestamp(),
  -- Transactions that are older than this one may still write rows of the organization.
  xid          xid8 not null default pg_current_xact_id(),
  -- When the next step is due.
  due_at       timestamptz not null default clock_timestamp(),
  -- Why nothing can be done at present; null if something can.
  waits_for    text,
  -- Of a user: what the organizations up to this one say about the user is erased.
  after_org    text collate "C" not null default '',
  finished_at  timestamptz,
  -- Rows of each table.
  deleted      jsonb not null default '{}' check (jsonb_typeof(deleted) = 'object')
);
create index deletions_open on keyhook.deletions (due_at) where finished_at is null;

-- A deleted user is a row with an id and times, because other rows name the id. The hashes keep a login of the OpenID issuer from
-- making the user again: of the id, a space, and the address in lower case or the subject.
alter table keyhook.users
  add column email_hash bytea check (length(email_hash) = 32),
  add column subject_hash bytea check (length(subject_hash) = 32),
  drop constraint users_email_of_people,
  drop constraint users_service,
  add constraint users_email_of_people check (is_service or email is not null or removed_at is not null),
  add constraint users_service check (
    not is_service or (email is null and (name is not null or removed_at is not null) and subject is null and verified_by is null)
  );

-- Whoever publishes needs a counter, and a deleted organization gets none: publishing there fails as in an unknown organization. The
-- lock waits for a deletion that has not been committed, and for no other change of the organization.
create function keyhook.refuse_counter() returns trigger
language plpgsql as $$
declare
  is_deleted boolean;
begin
  select o.deleted_at is not null into is_deleted from keyhook.organizations o where o.id = new.org_id for key share;
  return case when is_deleted then null else new end;
end
$$;
create trigger event_counters_inserted before insert on keyhook.event_counters
  for each row execute function keyhook.refuse_counter();
