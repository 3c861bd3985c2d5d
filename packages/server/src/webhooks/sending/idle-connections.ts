/** `older` and `newer` are the list's own. */
export type IdleConnection = { older: IdleConnection | null; newer: IdleConnection | null; close(): void }

/**
 * The connections of all receivers that carry nothing at the moment. Each takes some 65 KB, and there may be more webhooks than
 * fit into memory that way: when there are too many, the one that was used longest ago is closed.
 */
export type IdleConnections = {
  add(connection: IdleConnection): void
  remove(connection: IdleConnection): void
}

/** Linked, because each comes and goes with every request; what leaves points at nothing any more (see kernel/lists.ts). */
export function createIdleConnections(max: number): IdleConnections {
  let oldest: IdleConnection | null = null
  let newest: IdleConnection | null = null
  let size = 0

  function remove(connection: IdleConnection): void {
    const { older, newer } = connection
    if (older !== null) older.newer = newer
    else if (oldest === connection) oldest = newer
    else return
    if (newer !== null) newer.older = older
    else newest = older
    connection.older = null
    connection.newer = null
    size -= 1
  }

  return {
    add(connection) {
      connection.older = newest
      if (newest === null) oldest = connection
      else newest.newer = connection
      newest = connection
      size += 1
      if (size <= max) return
      const longest = oldest!
      remove(longest)
      longest.close()
    },
    remove,
  }
}
