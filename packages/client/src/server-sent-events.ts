/** One block of an event stream. `data` is null in a block that only sets the position. */
export type ServerSentEvent = { id: string | null; data: string | null }

/**
 * Reads the text of an event stream (WHATWG HTML, 9.2.6), in pieces of any size. A block that is not finished is not an event. The
 * fields `event` and `retry` are not used.
 */
export function createEventParser(): (piece: string) => ServerSentEvent[] {
  let rest = ''
  let id: string | null = null
  let data: string[] | null = null

  function readLine(line: string): ServerSentEvent | null {
    if (line === '') {
      const block = { id, data: data === null ? null : data.join('\n') }
      data = null
      return block.id === null && block.data === null ? null : block
    }
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line)!
    if (name === 'id') id = value!
    else if (name === 'data') data = [...(data ?? []), value!]
    return null
  }

  return (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop()!
    return lines.map(readLine).filter((block) => block !== null)
  }
}
