-- compatible
--
-- The attempt that a redelivery or recovery asked for; the retry schedule started again with it. It goes from the waiting delivery to
-- the attempt in flight and to the one that has ended.
alter table keyhook.retries add column redelivered boolean not null default false;
alter table keyhook.in_flight add column redelivered boolean not null default false;
alter table keyhook.attempts add column redelivered boolean not null default false;
-- What is sent although its webhook is suspended: nearly always empty.
create index retries_requested on keyhook.retries (lane_id, due_at) where redelivered or attempt < 0;
