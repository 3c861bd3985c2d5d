import { Writable } from 'node:stream'
import { type Logger, pino } from 'pino'

/** A log of all levels, in memory. */
export function captureLog(): { log: Logger; text(): string; lines(): Record<string, unknown>[] } {
  let text = ''
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += chunk
      done()
    },
  })
  return {
    log: pino({ level: 'trace' }, stream),
    text: () => text,
    lines: () => text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)])),
  }
}
