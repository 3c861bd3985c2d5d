-- Machines that hold databases, and when each was last heard of. Whoever places a database reads here who has room.
create table keyhook.nodes (
  id            text collate "C" primary key,
  databases_max integer not null,
  seen_at       timestamptz not null default clock_timestamp()
);
