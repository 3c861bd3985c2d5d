import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { type Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { vi } from 'vitest'
import { caFile, certificateFiles } from '../delivery/support/receiver.ts'
import { hasProgram } from '../docs/gateway-program.ts'
import { freePort } from '../kit/free-port.ts'

/*
 * The samples of deploy/nginx, deploy/caddy and deploy/haproxy. Only host name, ports and certificate files are replaced. Debian has all
 * three programs.
 */

const sample = (name: string) => readFile(new URL(`../../../../deploy/${name}`, import.meta.url), 'utf8')
const files = certificateFiles('receiver')
/** `keyhook` are the ports of the two processes that the samples name. */
export type Ports = { http: number; https: number; keyhook: readonly [number, number] }

/** What the samples name in the same words. */
const adapted = (text: string, { keyhook }: Ports) =>
  text
    .replaceAll('/etc/keyhook/tls/fullchain.pem', files.cert)
    .replaceAll('/etc/keyhook/tls/privkey.pem', files.key)
    .replaceAll('/etc/keyhook/tls/haproxy.pem', 'haproxy.pem')
    .replaceAll(/(?<!\/\/)keyhook\.example\.com/g, 'localhost')
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${keyhook[0]}`)
    .replaceAll('127.0.0.1:8081', `127.0.0.1:${keyhook[1]}`)

export type ProxyProgram = {
  name: string
  installed: boolean
  files(ports: Ports): Promise<Record<string, string>>
  command: readonly [string, ...string[]]
}

const nginx: ProxyProgram = {
  name: 'nginx',
  installed: hasProgram('nginx', '-v'),
  files: async (ports) => ({
    'keyhook.conf': adapted(await sample('nginx/keyhook.conf'), ports)
      .replace('listen 80;', `listen 127.0.0.1:${ports.http};`)
      .replace('listen 443 ssl http2;', `listen 127.0.0.1:${ports.https} ssl http2;`),
    'nginx.conf': `pid nginx.pid; error_log stderr; events {}
http { access_log off; ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path temp;`).join(' ')}
  include keyhook.conf; }`,
  }),
  command: ['nginx', '-p', '.', '-c', 'nginx.conf', '-e', 'stderr', '-g', 'daemon off; master_process off;'],
}

const caddy: ProxyProgram = {
  name: 'Caddy',
  installed: hasProgram('caddy', 'version'),
  files: async (ports) => ({
    Caddyfile: adapted(await sample('caddy/Caddyfile'), ports).replace(
      'grace_period 10s',
      `grace_period 1s\n admin off\n default_bind 127.0.0.1\n http_port ${ports.http}\n https_port ${ports.https}`,
    ),
  }),
  command: ['caddy', 'run', '--config', 'Caddyfile', '--adapter', 'caddyfile'],
}

const haproxy: ProxyProgram = {
  name: 'HAProxy',
  installed: hasProgram('haproxy', '-v'),
  files: async (ports) => ({
    'haproxy.pem': (await readFile(files.cert, 'utf8')) + (await readFile(files.key, 'utf8')),
    'haproxy.cfg': adapted(await sample('haproxy/haproxy.cfg'), ports)
      .replace('bind :80', `bind 127.0.0.1:${ports.http}`)
      .replace('bind :443', `bind 127.0.0.1:${ports.https}`),
  }),
  command: ['haproxy', '-db', '-f', 'haproxy.cfg'],
}

export const proxyPrograms = [nginx, caddy, haproxy].map((proxy) => ({
  ...proxy,
  title: `${proxy.name}, from its sample${proxy.installed ? '' : ' (not run: it is not installed)'}`,
}))

export type RunningProxy = {
  url: string
  ports: Ports
  /** A request to the proxy with a verified certificate, from an address of loopback. */
  open(method: string, path: string, sent?: Sent): Promise<IncomingMessage>
  send(
    method: string,
    path: string,
    sent?: Sent,
  ): Promise<{ status: number; headers: IncomingMessage['headers']; text: string }>
  stop(): Promise<void>
}

type Sent = { body?: unknown; token?: string; from?: string; headers?: Record<string, string>; agent?: Agent }

/** Where a proxy will listen. Keyhook wants to know its public address before it starts. */
export const choosePorts = async (): Promise<{ url: string; http: number; https: number }> => {
  const [http, https] = [await freePort(), await freePort()]
  return { url: `https://localhost:${https}`, http, https }
}

/** Ready when a Keyhook behind it is. */
export async function startProxy(proxy: ProxyProgram, ports: Ports): Promise<RunningProxy> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-proxy-'))
  const url = `https://localhost:${ports.https}`
  const ca = await readFile(caFile)
  for (const [name, content] of Object.entries(await proxy.files(ports))) await writeFile(join(folder, name), content)
  const [program, ...args] = proxy.command
  const env = { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const child = spawn(program, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'] })
  let problems = ''
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    problems += chunk
  })
  const ended = once(child, 'exit')

  const open: RunningProxy['open'] = (method, path, { body, token, from = '127.0.0.1', headers, agent } = {}) =>
    new Promise((resolve, reject) => {
      const sent = body === undefined ? undefined : JSON.stringify(body)
      const options = {
        method,
        path,
        host: '127.0.0.1',
        port: ports.https,
        servername: 'localhost',
        ca,
        localAddress: from,
        agent: agent ?? false,
        headers: {
          host: new URL(url).host,
          ...(sent !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) }),
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...headers,
        },
      } as const
      request(options, resolve).on('error', reject).end(sent)
    })
  const send: RunningProxy['send'] = async (method, path, sent) => {
    const response = await open(method, path, sent)
    return { status: response.statusCode!, headers: response.headers, text: await text(response) }
  }
  const isReady = async () => {
    if (child.exitCode !== null) throw new Error(problems)
    return send('GET', '/readyz').then(
      ({ status }) => status === 200,
      () => false,
    )
  }
  await vi.waitUntil(isReady, { timeout: 60_000, interval: 100 })
  return {
    url,
    ports,
    open,
    send,
    async stop() {
      // nginx and Caddy end at once, HAProxy after its streams.
      child.kill(proxy.name === 'HAProxy' ? 'SIGINT' : 'SIGTERM')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}
