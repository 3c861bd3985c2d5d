import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Output, printable, styled, UsageError } from '@keyhook/cli'
import { createReceiver, localCertificate, type Received } from '@keyhook/cli/receiver'
import { endOf, serverLog } from './demo-server.ts'

/** A delivery that does not come within this time is a fault: on a slow machine they take seconds. */
const waitMsMax = 120_000

export type DemoReceiver = {
  url: string
  certificatePath: string
  verifyWith(secret: string): void
  /** Resolves when an event of this type has arrived, verified. */
  arrival(type: string): Promise<void>
  close(): void
}

/** The receiver of the demo's webhook: verifies every delivery as a customer's program would, and shows it. */
export async function startDemoReceiver(deps: { folder: string; output: Output }): Promise<DemoReceiver> {
  const certificate = await localCertificate(join(deps.folder, 'receiver'), new Date())
  const arrived = new Map<string, PromiseWithResolvers<void>>()
  const of = (type: string) => {
    const known = arrived.get(type) ?? Promise.withResolvers<void>()
    arrived.set(type, known)
    return known
  }
  let secret: string | null = null
  const receiver = createReceiver({
    certificate,
    behaviour: { status: 204, delayMs: 0, hang: false },
    secret: async () => (secret === null ? { why: 'there is no webhook yet' } : { secret }),
    onReceived(received) {
      deps.output.result(received, line(received))
      if ('signature' in received && received.signature === 'good') of(received.event).resolve()
    },
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  return {
    url: `https://127.0.0.1:${(receiver.address() as AddressInfo).port}/`,
    certificatePath: certificate.certificatePath,
    verifyWith(given) {
      secret = given
    },
    async arrival(type) {
      const timeout = AbortSignal.timeout(waitMsMax)
      const late = once(timeout, 'abort').then(async () => {
        throw new UsageError(
          `No ${type} arrived. The last lines of the server's log:\n${await endOf(serverLog(deps.folder))}`,
        )
      })
      await Promise.race([of(type).promise, late])
    },
    close() {
      receiver.close()
      receiver.closeAllConnections()
    },
  }
}

function line(received: Received): string {
  const verdict =
    'signature' in received && received.signature === 'good'
      ? styled('green', 'signature verified')
      : styled('red', 'NOT VERIFIED')
  const type = styled('bold', printable(received.event).padEnd(17))
  return `   ${styled('green', '←')} ${received.at.slice(11, 19)}  ${type}  ${verdict}  ${printable(received.id ?? '')}`
}
