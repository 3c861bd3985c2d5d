-- Two addresses are one where only the case of the letters A to Z differs. Folded by Unicode, a Kelvin sign is a k: whoever
-- has such a mailbox at a login issuer would have been let in as the user whose address has the k.
create unique index users_email_by_ascii on keyhook.users (lower(email collate "C")) where removed_at is null;
drop index keyhook.users_email;
alter index keyhook.users_email_by_ascii rename to users_email;
