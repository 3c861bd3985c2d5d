import type { MasterKeys } from '../../lib/master-keys.ts'
import type { Network } from '../../lib/network.ts'
import { createAddressGuard, createResolve } from './addresses.ts'
import { exchangeOf, recordHeaders } from './exchange.ts'
import { createHttp1Clients, type Http1Client, type Http1Limits, type Resolve } from './http1/client.ts'
import type { OpenSender, Sender, SendRequest, WebhookTarget } from './port.ts'
import { createOverlappingSigner, createRequestHeaders, createSigner, type Signer } from './request.ts'

export type SendLimits = Http1Limits

export type SenderSettings = {
  serviceName: string
  standardWebhooks: boolean
  /** Networks that deliveries may go to besides the public ones. */
  allowNetworks: readonly Network[]
  /** PEM of certificates that are trusted besides the usual ones. */
  extraCa: string | null
  limits: SendLimits
}

type KeptSender = Sender & {
  webhookId: string
  version: number
  client: Http1Client
  inFlight: number
  usedAtMs: number
}

/** How long a sender with its connections is kept after its last request. */
const keptMs = 60_000

export type Senders = { open: OpenSender; close(): void }

/** The senders of all lanes that this process held lately: a lane that comes back finds its connections open. */
export function createSenders(deps: {
  masterKeys: MasterKeys
  settings: SenderSettings
  now(): number
  resolve?: Resolve
  onUnreadable(webhook: WebhookTarget, error: unknown): void
}): Senders {
  const { settings, now } = deps
  const headersOf = createRequestHeaders(settings)
  const openClient = createHttp1Clients({
    resolve: deps.resolve ?? createResolve(),
    isAllowed: createAddressGuard(settings.allowNetworks),
    extraCa: settings.extraCa,
    limits: settings.limits,
    now,
  })
  const kept = new Map<number, KeptSender>()

  /**
   * Which secret signs depends on the time: an overlap ends without a change of the settings. A test event, which has no
   * sequence, is signed with the new secret alone: it shows whether the receiver is ready for the switch.
   */
  function openSigners({ webhookId, secret, rotation }: WebhookTarget): (request: SendRequest) => Signer {
    const current = createSigner(deps.masterKeys.open(secret, webhookId))
    if (rotation === null) return () => current
    const old = createSigner(deps.masterKeys.open(rotation.oldSecret, webhookId))
    const both = createOverlappingSigner(current, old, rotation)
    return ({ startedAtMs, sequence }) => (sequence !== null && startedAtMs < rotation.overlapUntilMs ? both : current)
  }

  /** `previous`: requests with the settings of before may still be in flight. */
  function openSender(webhook: WebhookTarget, previous: KeptSender | null): KeptSender | null {
    let signerOf: (request: SendRequest) => Signer
    try {
      signerOf = openSigners(webhook)
    } catch (error) {
      deps.onUnreadable(webhook, error)
      return null
    }
    const client = openClient(new URL(webhook.url))
    const sender: KeptSender = {
      webhookId: webhook.webhookId,
      version: webhook.version,
      client,
      inFlight: 0,
      usedAtMs: now(),
      send(request, done) {
        // A lane that sent nothing for a minute was removed by the sweep, but is still held.
        if (!kept.has(webhook.laneId)) kept.set(webhook.laneId, sender)
        sender.inFlight += 1
        const headers = headersOf(signerOf(request), request)
        client.post(headers, request, (result) => {
          sender.inFlight -= 1
          sender.usedAtMs = now()
          done(exchangeOf(result, recordHeaders(headers), now()))
        })
      },
      interrupt() {
        previous?.interrupt()
        client.interrupt()
      },
    }
    return sender
  }

  const sweep = setInterval(() => {
    const beforeMs = now() - keptMs
    for (const [laneId, sender] of kept) {
      if (sender.inFlight > 0 || sender.usedAtMs > beforeMs) continue
      sender.client.closeIdle()
      kept.delete(laneId)
    }
  }, keptMs / 4)
  sweep.unref()

  return {
    open(webhook) {
      const known = kept.get(webhook.laneId)
      // A failover that lost a webhook may give its lane's number to another one.
      if (known?.webhookId === webhook.webhookId && known.version === webhook.version) return known
      known?.client.close()
      const sender = openSender(webhook, known !== undefined && known.inFlight > 0 ? known : null)
      if (sender === null) kept.delete(webhook.laneId)
      else kept.set(webhook.laneId, sender)
      return sender
    },
    close() {
      clearInterval(sweep)
      for (const sender of kept.values()) {
        // Requests of lanes that we lost may still be in flight; their new holder records them.
        sender.interrupt()
        sender.client.close()
      }
      kept.clear()
    },
  }
}
