import type { Config } from '../config.ts'
import { openFilesMax } from '../startup/open-files.ts'
import type { DeliverySettings } from '../webhooks/engine.ts'

/** Shares of the files that a process may have open. The rest is for other connections. */
const shares = { inFlight: 0.6, idle: 0.3 }

const receiversMax = ({ deliveryInFlightMax }: Config, share: number): number =>
  Math.min(deliveryInFlightMax, Math.floor((openFilesMax() ?? Number.POSITIVE_INFINITY) * share))

export const engineSettings = (config: Config): DeliverySettings => ({
  sender: {
    serviceName: config.serviceName,
    standardWebhooks: config.deliveryStandardWebhooks === 'on',
    allowNetworks: config.deliveryAllowNetworks ?? [],
    extraCa: config.deliveryCa,
    limits: {
      attemptMsMax: config.deliveryMsMax,
      connectMsMax: config.deliveryConnectMsMax,
      responseKeptBytesMax: config.deliveryResponseKeptBytesMax,
      responseBytesMax: config.deliveryResponseBytesMax,
      responseHeaderBytesMax: 16_384,
      idleMax: receiversMax(config, shares.idle),
    },
  },
  schedule: config.deliverySchedule,
  retentionDays: config.retentionDays,
  limits: {
    inFlightMax: receiversMax(config, shares.inFlight),
    // As many lanes as requests would do if every lane had one in flight; the rest are waiting for a turn.
    lanesMax: receiversMax(config, shares.inFlight) + 1_000,
    laneConcurrencyMax: config.deliveryLaneConcurrencyMax,
    leaseMs: config.deliveryLeaseMs,
    pollMs: 100,
    drainMsMax: config.deliveryDrainMsMax,
  },
})
