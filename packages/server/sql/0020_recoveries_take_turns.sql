-- Recoveries take turns, organization by organization, instead of one being walked through while all others wait.
alter table keyhook.recoveries
  add column stepped_at timestamptz,
  -- The last event that it is about; null for one that was begun before this column was here.
  add column last_seq bigint,
  -- Everything up to there has been looked at, and only these are left: an attempt of each was on its way.
  add column looked_through boolean not null default false,
  add column passed_over bigint[] not null default '{}';
create index recoveries_stepped on keyhook.recoveries (org_id, stepped_at);
