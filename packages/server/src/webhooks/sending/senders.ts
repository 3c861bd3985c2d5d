import { createSigner, type Signer } from '../../domain/signature.ts'
import type { MasterKeys } from '../../kernel/master-keys.ts'
import type { LeasedLane } from '../../store/delivery/lanes.ts'
import type { LaneSender } from '../dispatching/lane.ts'
import { newWidth } from '../dispatching/width.ts'
import type { SendLimits } from './attempt.ts'
import type { Connect } from './connector.ts'
import type { Exchange } from './exchange.ts'
import { createIdleConnections } from './idle-connections.ts'
import { createReceiverConnections, type Receiver } from './receiver-connections.ts'
import type { RequestHeaders } from './request.ts'

type Kept = LaneSender & { webhookId: string; usedAt: number; inFlight: number; receiver: Receiver }

/** How long connections and what was learned about a receiver outlive the lease of its lane. */
const keptMs = 60_000

/** The senders of all lanes that this process has held lately: a lane that comes back finds its connections warm. */
export function createSenders(deps: {
  masterKeys: MasterKeys
  connect: Connect
  limits: SendLimits
  /** Connections that are kept while they carry nothing. */
  idleMax: number
  requestHeaders: RequestHeaders
  now(): number
  onUnreadable(leased: LeasedLane, error: unknown): void
}) {
  const kept = new Map<number, Kept>()
  const idleConnections = createIdleConnections(deps.idleMax)

  function open(leased: LeasedLane): Kept | null {
    let signer: Signer
    try {
      signer = createSigner(deps.masterKeys.open(leased.webhook!.secret, leased.webhookId))
    } catch (error) {
      deps.onUnreadable(leased, error)
      return null
    }
    const receiver = createReceiverConnections(new URL(leased.webhook!.url), { ...deps, idleConnections })
    const sender: Kept = {
      webhookId: leased.webhookId,
      width: newWidth(),
      usedAt: deps.now(),
      inFlight: 0,
      receiver,
      headers: (delivery, startedAtMs) => deps.requestHeaders(signer, delivery, startedAtMs),
      send(headers, body, done, leave) {
        // A lane may have been held for a minute with nothing sent, while PostgreSQL was away: then it was swept out.
        if (!kept.has(leased.laneId)) kept.set(leased.laneId, sender)
        sender.inFlight += 1
        const onEnd = (exchange: Exchange) => {
          sender.inFlight -= 1
          sender.usedAt = deps.now()
          done(exchange)
        }
        receiver.send(headers, body, onEnd, leave)
      },
      interrupt: () => receiver.interrupt(),
    }
    return sender
  }

  const sweep = setInterval(() => {
    const before = deps.now() - keptMs
    for (const [laneId, sender] of kept) {
      if (sender.inFlight > 0 || sender.usedAt > before) continue
      sender.receiver.closeIdle()
      kept.delete(laneId)
    }
  }, keptMs / 4)
  sweep.unref()

  return {
    open(leased: LeasedLane): LaneSender | null {
      // URL and secret of a webhook never change, so a kept sender is as good as a new one. But after a failover that lost a
      // webhook its lane's number may be another's.
      const known = kept.get(leased.laneId)
      const isIts = known?.webhookId === leased.webhookId
      if (!isIts) known?.receiver.close()
      const sender = isIts ? known! : open(leased)
      if (sender !== null) kept.set(leased.laneId, sender)
      return sender
    },
    close() {
      clearInterval(sweep)
      for (const { receiver } of kept.values()) {
        // Of lanes that were lost something may be on its way still: its record is somebody else's by now.
        receiver.interrupt()
        receiver.close()
      }
      kept.clear()
    },
  }
}
