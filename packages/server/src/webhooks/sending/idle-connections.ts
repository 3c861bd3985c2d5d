/**
 * The connections of all receivers that carry nothing at the moment. Each takes some 65 KB, and there may be more webhooks than
 * fit into memory that way: when there are too many, the one that was used longest ago is closed.
 */
export type IdleConnections = {
  add(connection: object, close: () => void): void
  remove(connection: object): void
}

export function createIdleConnections(max: number): IdleConnections {
  const closing = new Map<object, () => void>()
  return {
    add(connection, close) {
      closing.set(connection, close)
      if (closing.size <= max) return
      const [oldest] = closing.entries().take(1)
      closing.delete(oldest![0])
      oldest![1]()
    },
    remove: (connection) => void closing.delete(connection),
  }
}
