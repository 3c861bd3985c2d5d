type Registered = { method: string | string[]; url: string }

/** Remembers what was registered, whoever did it, to say which methods a path takes: for 405 and its Allow header. */
export function createMethodTable() {
  const registered: { method: string; parts: string[] }[] = []

  return {
    add({ method, url }: Registered): void {
      for (const one of [method].flat()) registered.push({ method: one, parts: url.split('/') })
    },
    /** Empty when no route has the path. */
    at(url: string): string[] {
      const path = pathOf(url).split('/').map(decoded)
      return [...new Set(registered.filter(({ parts }) => matches(parts, path)).map(({ method }) => method))]
    },
  }
}

/** A proxy may send the whole URL as the target (RFC 9112, 3.2.2). */
const pathOf = (url: string): string => url.replace(/^https?:\/\/[^/?]*/i, '').split('?', 1)[0]!

/** As the router reads it, unless it cannot be: a method that nothing takes is refused before anybody tries. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const matches = (pattern: readonly string[], path: readonly string[]): boolean =>
  pattern.length === path.length &&
  pattern.every((part, i) => (part.startsWith(':') ? path[i] !== '' : part === path[i]))
