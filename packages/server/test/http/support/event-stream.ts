import { onTestFinished } from 'vitest'

type Block = { id: number | null; event: string | null; data: string | null }

/** A client of the stream. What has arrived so far is in `blocks`. */
export async function openStream(url: string, token: string, headers: Record<string, string> = {}) {
  const abort = new AbortController()
  onTestFinished(() => abort.abort())
  const response = await fetch(url, {
    headers: { authorization: `Bearer ${token}`, ...headers },
    signal: abort.signal,
  })
  const blocks: Block[] = []
  let text = ''
  const ended = (async (): Promise<string> => {
    try {
      for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
        text += piece
        const parts = text.split('\n\n')
        text = parts.pop()!
        blocks.push(...parts.map(blockOf))
      }
      return 'ended'
    } catch (error) {
      return abort.signal.aborted ? 'aborted' : String(error)
    }
  })()
  return {
    response,
    blocks,
    ended,
    abort: () => abort.abort(),
    /** The numbers of the events. */
    numbers: () => blocks.filter((one) => one.data !== null).map((one) => one.id),
  }
}

function blockOf(text: string): Block {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(text)?.[1] ?? null
  const id = field('id')
  return { id: id === null ? null : Number(id), event: field('event'), data: field('data') }
}
