-- It helped nobody: resealing looks for secrets that are under any other key than one, which an index cannot find. And it stood
-- for all webhooks that exist, so until there were statistics a publisher read them all through it, whoever's they were.
drop index keyhook.webhooks_secret_key;
