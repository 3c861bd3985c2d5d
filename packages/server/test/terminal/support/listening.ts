import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { expect, onTestFinished } from 'vitest'
import { cleanEnvironment, program } from '../../kit/processes.ts'

type Post = { headers: IncomingHttpHeaders; body: string; status: number }

/** A customer's program on this machine. `answer` decides the status of each post. */
export async function localProgram(answer: (n: number) => number, delayMs = 0, port = 0) {
  const posts: Post[] = []
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString()
    const status = answer(posts.length)
    posts.push({ headers: request.headers, body, status })
    await setTimeout(delayMs)
    response.writeHead(status).end()
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  const close = async () => {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  }
  onTestFinished(close)
  return { posts, close, url: `http://127.0.0.1:${(server.address() as { port: number }).port}/hooks` }
}

/** `keyhook listen` in a process of its own, when it is connected. */
export async function startListen(env: Record<string, string>, ...args: string[]) {
  const listen = startCommand(env, 'listen', ...args)
  await expect.poll(listen.stderr).toContain('Ctrl-C stops this command.')
  return listen
}

/** A command that runs until it is stopped. */
export function startCommand(env: Record<string, string>, ...args: string[]) {
  const child = spawn(process.execPath, [program, ...args], { env: cleanEnvironment(env) })
  const ended = once(child, 'close')
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk
  })
  const kill = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal)
    return ended
  }
  onTestFinished(async () => {
    await kill('SIGKILL')
  })
  return { stdout: () => stdout, stderr: () => stderr, ended, kill }
}
