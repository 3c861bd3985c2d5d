/**
 * Where the console and the server are. The built script is at `<prefix>/console/assets/`, so its own address tells the prefix
 * of a proxy that neither the build nor the page knows.
 */
const script = new URL(import.meta.url)
const consoleUrl = import.meta.env.DEV ? new URL('/console/', script) : new URL('..', script)

/** Such as `/console` or `/prefix/console`. */
export const basePath = consoleUrl.pathname.replace(/\/$/, '')

/** What the client is given: the parent of the console. */
export const serverUrl = new URL('..', consoleUrl).href.replace(/\/$/, '')

export const consolePath = (path: string): string => `${basePath}${path}`
