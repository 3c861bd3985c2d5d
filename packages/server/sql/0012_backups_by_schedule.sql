-- Every node asks each minute which of its databases are due for a backup, and which backups are beyond the number kept.
-- Rows of deleted backups stay, so whatever does not read by these reads more with every night.
create index backups_scheduled on keyhook.backups (org_id, database_id, created_at) where origin = 'scheduled';
create index backups_scheduled_completed on keyhook.backups (node, org_id, database_id, id desc)
  where origin = 'scheduled' and status = 'completed';
