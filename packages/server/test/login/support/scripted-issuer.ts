import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** An issuer that misbehaves. `answers` may be changed while it runs. */
export async function startScriptedIssuer() {
  const answers = new Map<string, Answer>()
  const server = createServer((request, response) => {
    const answer = answers.get(request.url ?? '')
    if (answer === undefined) response.writeHead(404).end()
    else answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answers,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

export const json =
  (value: unknown): Answer =>
  (_request, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
