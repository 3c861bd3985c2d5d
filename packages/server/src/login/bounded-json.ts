/** An issuer's documents are a few KiB; key sets with certificate chains reach some tens. */
const responseBytesMax = 256 * 1024

/** Reads a JSON document, with a limit on everything the other side decides: time, size and where we end up. */
export async function getJson(deps: { fetch: typeof fetch; url: URL; signal: AbortSignal }): Promise<unknown> {
  const response = await deps.fetch(deps.url, {
    // Not kept alive: minutes pass between reads, and a connection that the other side is just closing fails the next
    // one. With our cooldown equal to the idle time of many servers that happened in tests, as an outage that was none.
    headers: { accept: 'application/json', connection: 'close' },
    // No redirects at all: following one would let another host, or plain http, speak for the issuer.
    redirect: 'manual',
    signal: deps.signal,
  })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`${deps.url} answered ${response.status}`)
  }
  return JSON.parse(await boundedText(response, deps.url))
}

async function boundedText(response: Response, url: URL): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  // Counted as it arrives, after decompression: a content-length header proves nothing.
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > responseBytesMax) throw new Error(`${url} answered more than ${responseBytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
