import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

type Handler = (request: IncomingMessage, response: ServerResponse) => void

export type Scripted = { url: string; requests: IncomingMessage[] }

/** A server that answers its requests by a script, the last entry again and again; closed when the test ends. */
export async function scriptedServer(...script: Handler[]): Promise<Scripted> {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    requests.push(request)
    request.resume()
    script[Math.min(requests.length, script.length) - 1]!(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(() => resolve()))
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}

export const json =
  (body: unknown, headers: Record<string, string> = {}, status = 200): Handler =>
  (_, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  }

export const problem = (status: number, code: string, headers: Record<string, string> = {}, more: object = {}) =>
  json({ status, code, title: code, detail: `${code}.`, ...more }, headers, status)

/** The connection breaks without an answer. */
export const broken: Handler = (request) => request.socket.destroy()
export const silent: Handler = () => {}
