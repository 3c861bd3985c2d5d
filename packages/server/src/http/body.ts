import type { FastifyRequest } from 'fastify'
import { parseRecordsExactly } from '../kernel/exact-json.ts'
import { Fault } from '../kernel/faults.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    passesOnNumbers?: boolean
    takesBody?: boolean
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const malformed = (detail: string): Fault => new Fault('request.malformed', { public: detail })

/** RFC 8259: JSON is UTF-8. A lenient decoder would store replacement characters that nobody sent. */
export function readJson(
  request: FastifyRequest,
  body: string | Buffer,
  done: (error: Error | null, value?: unknown) => void,
): void {
  try {
    refuseCodings(request.headers)
    // Many clients put a JSON content type on a DELETE without a body.
    const { passesOnNumbers } = request.routeOptions.config
    done(
      null,
      body.length === 0 ? undefined : parse(body as Buffer, passesOnNumbers ? parseRecordsExactly : JSON.parse),
    )
  } catch (error) {
    done(error as Fault)
  }
}

/** Nothing here is ever unpacked: a small body that becomes a large one is an old trick. */
function refuseCodings(headers: FastifyRequest['headers']): void {
  const content = headers['content-encoding'] ?? 'identity'
  if (content.toLowerCase() !== 'identity') {
    throw new Fault('request.unsupported_media_type', { public: 'Send the body as it is, without a Content-Encoding.' })
  }
  const transfer = headers['transfer-encoding'] ?? 'chunked'
  if (transfer.toLowerCase() !== 'chunked') throw malformed('The only Transfer-Encoding that is known here is chunked.')
}

function parse(body: Buffer, parseText: (text: string) => unknown): unknown {
  let text: string
  try {
    text = utf8.decode(body)
  } catch {
    throw malformed('The body is not valid UTF-8.')
  }
  try {
    return parseText(text)
  } catch (error) {
    if (error instanceof RangeError) throw malformed('The body is nested too deeply.')
    // The parser's message quotes the text it stumbled over, and that may be somebody's secret: keep only the place.
    const place = /position \d+/.exec(String(error))?.[0]
    throw malformed(`The body is not valid JSON${place ? ` (at ${place})` : ''}.`)
  }
}
