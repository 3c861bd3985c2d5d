-- What each node bills with. Whoever makes an invoice by hand, in an environment of their own, is held against it: an invoice
-- is final.
alter table keyhook.nodes add column currency text, add column hour_price_minor bigint;
