-- compatible
--
-- Optional event types of Keyhook itself stand in `event_types` while the operator has them enabled. A file of declared types
-- neither removes nor replaces them.
alter table keyhook.event_types add column built_in boolean not null default false;
