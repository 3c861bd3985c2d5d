-- When the server started that gave the lease. A lease is good for that server alone: another one, or the same after it was started
-- again, may lack the last of what its holder was told, and what it lacks is written anew under the same numbers.
alter table keyhook.lanes add column lease_server timestamptz;
