import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import { freePort } from '../kit/free-port.ts'

/** Whether a program is installed. Says so if it is not. */
export function hasProgram(name: string, versionFlag: string): boolean {
  try {
    execFileSync(name, [versionFlag], { stdio: 'ignore' })
    return true
  } catch {
    console.log(`not run: the example for ${name}, because there is no ${name} in PATH`)
    return false
  }
}

export type GatewayProgram = {
  /** What the gateway reads, made from the ports of itself, of the product and of whatever else it listens on. */
  files(ports: { gateway: number; product: number; other: number }): Promise<Record<string, string>>
  command: readonly [string, ...string[]]
  stopSignal: NodeJS.Signals
}

/** A gateway in a folder of its own, in front of a product that repeats what it was sent. */
export async function startGatewayProgram({ files, command: [name, ...args], stopSignal }: GatewayProgram) {
  const product = createServer((request, response) => {
    response.end(JSON.stringify({ url: request.url, headers: request.headers }))
  })
  await once(product.listen(0, '127.0.0.1'), 'listening')
  const productPort = (product.address() as AddressInfo).port
  const ports = { gateway: await freePort(), product: productPort, other: await freePort() }
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-gateway-'))
  for (const [file, text] of Object.entries(await files(ports)))
    await writeFile(join(folder, file), text, { mode: 0o600 })
  const program = spawn(name, args, { cwd: folder, stdio: 'ignore' })
  const url = `http://127.0.0.1:${ports.gateway}`
  const isUp = () =>
    fetch(url)
      .then(() => true)
      .catch(() => false)
  await vi.waitUntil(isUp, { timeout: 60_000 })
  const stop = async () => {
    const ended = once(program, 'exit')
    program.kill(stopSignal)
    await ended
    product.closeAllConnections()
    product.close()
    await rm(folder, { recursive: true, force: true })
  }
  return { url, stop }
}
