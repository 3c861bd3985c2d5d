import type { Route } from './route.ts'

/** The methods that a path takes, for 405 and its Allow header; empty when no route has the path. */
export function methodsAt(routes: readonly Route[], url: string): string[] {
  const path = url.split('?', 1)[0]!
  const methods = new Set<string>()
  for (const route of routes) {
    if (!matches(route.path, path)) continue
    methods.add(route.method)
    if (route.method === 'GET') methods.add('HEAD')
  }
  return [...methods]
}

function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split('/')
  const given = path.split('/')
  return wanted.length === given.length && wanted.every((part, i) => part.startsWith(':') || part === given[i])
}
