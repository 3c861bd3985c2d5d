import type { Delivery } from '@keyhook/client'

/** Headers that curl sets itself. */
const automatic = new Set(['host', 'content-length', 'connection', 'transfer-encoding'])

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** The same request as a command, signature included. */
export function curlOf({ request }: Delivery, body: string): string {
  const headers = Object.entries(request.headers ?? {})
    .filter(([name]) => !automatic.has(name.toLowerCase()))
    .flatMap(([name, value]) => [value].flat().map((one) => `-H ${quoted(`${name}: ${String(one)}`)}`))
  return ['curl -i -X POST', ...headers, `--data-binary ${quoted(body)}`, quoted(request.url)].join(' \\\n  ')
}
