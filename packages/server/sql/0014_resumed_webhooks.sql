-- compatible
--
-- A suspended webhook whose receiver has answered stays suspended until all that waited is due. Afterwards this stays true until its
-- queue was empty once: retries, which are older, are sent before events that were never tried. A process of an older version ends a
-- suspension at once and sends both as they come; of a mark it takes no notice.
-- `webhook_changes.resumes` is not used any more.
alter table keyhook.lanes add column resumes boolean not null default false;
