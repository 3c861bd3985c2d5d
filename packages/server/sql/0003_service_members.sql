-- compatible
--
-- Service members: users without a login, for keys that outlive a person. Such a user belongs to the organization in `invited_to` only,
-- as an unverified user does. A process of an older version lets their keys in with the role of the membership, which is right, and
-- adds none of them to another organization. It finds no e-mail address and no subject to log in by; the checks below keep it from
-- giving them one. What is left: an operator can print a login token or a link for one with the older program. This version refuses both.
alter table keyhook.users
  alter column email drop not null,
  add column is_service boolean not null default false,
  add constraint users_email_of_people check (is_service or email is not null),
  add constraint users_service check (
    not is_service or (email is null and name is not null and subject is null and verified_by is null)
  );
