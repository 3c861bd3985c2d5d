import { attemptIdOf } from '../kernel/ids.ts'
import type { LineLog } from '../log.ts'
import type { Lane } from './engine/lane.ts'
import type { Attempted, DispatchObserver } from './engine/types.ts'

/**
 * One line an attempt. Never the URL's query, a header or a body: any of them may hold a secret of the receiver's. Put together
 * here, of ids, codes and numbers, none of which needs to be escaped: field by field it cost a dispatcher a twentieth of its time.
 */
export function createAttemptLog(log: LineLog): Pick<DispatchObserver, 'attempted'> {
  // What is the same in all lines of a lane is written out once.
  const whose = new WeakMap<Lane, string>()

  function whoseOf(lane: Lane): string {
    const known = whose.get(lane)
    if (known !== undefined) return known
    const { orgId, webhookId } = lane.lease
    const made = `"orgId":"${orgId}","webhookId":"${webhookId}"`
    whose.set(lane, made)
    return made
  }

  return {
    attempted({ lane, delivery, attempt, exchange, retryMs }: Attempted) {
      if (!log.isOn()) return
      const { status, response, error, durationUs, address } = exchange
      const answer = response === null ? '' : `,"responseStatus":${response.status}`
      const failure = error === null ? '' : `,"error":"${error.code}"`
      const durationMs = durationUs === null ? null : durationUs / 1_000
      const from = address === null ? 'null' : `"${address}"`
      // `deliveryId`: as lists of deliveries have it.
      log.write(
        `${whoseOf(lane)},"eventId":"${delivery.eventId}","type":"${delivery.eventType}","attempt":${attempt.attempt},"deliveryId":"${attemptIdOf(attempt.attemptId)}","status":"${status}"${answer}${failure},"durationMs":${durationMs},"address":${from},"retryMs":${retryMs},"msg":"delivery.attempted"`,
      )
    },
  }
}
