import { readHeaders } from '../../domain/recorded-headers.ts'
import type { LeasedLane } from '../../store/delivery/lanes.ts'
import type { OpenSender, Sender, SignedContent } from '../sender/port.ts'
import type { LaneSender } from './lane.ts'
import { newWidth } from './width.ts'

/** Lets the dispatcher, which still uses `LaneSender`, work with the sender's port. To be deleted with `LaneSender`. */
export function adaptSenders(open: OpenSender): (leased: LeasedLane) => LaneSender | null {
  const adapted = new WeakMap<Sender, LaneSender>()
  return (leased) => {
    const { laneId, orgId, webhookId, webhook } = leased
    const sender = open({ laneId, orgId, webhookId, ...webhook! })
    if (sender === null) return null
    const known = adapted.get(sender)
    if (known !== undefined) return known
    const contents = new WeakMap<string[], SignedContent>()
    const laneSender: LaneSender = {
      width: newWidth(),
      headers({ eventId, eventType, body }, startedAtMs) {
        const content = { eventId, eventType, body, startedAtMs }
        const headers = Object.entries(readHeaders(sender.requestHeaders(content))).flat(2)
        contents.set(headers, content)
        return headers
      },
      send(headers, _body, done, { overMs, mayGo }) {
        sender.send({ ...contents.get(headers)!, sendByMs: overMs, mayStillSend: mayGo }, done)
      },
      interrupt: () => sender.interrupt(),
    }
    adapted.set(sender, laneSender)
    return laneSender
  }
}
