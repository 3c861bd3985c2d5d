import {
  attemptsMax,
  leaseMsMax,
  type RetrySchedule,
  readRetrySchedule,
  waitDaysMax,
} from '../delivery/retry-schedule.ts'
import { type Network, readNetwork } from '../lib/network.ts'
import { certificateFile, count, InvalidValue, integer, matching, oneOf, optional, secret, setting } from './setting.ts'

const networks = (value: string): Network[] =>
  value.split(',').map((part) => {
    const network = readNetwork(part.trim())
    if (network === null) throw new InvalidValue('is not a list of networks such as 10.0.0.0/8,fd00::/8')
    return network
  })

const otlpUrl = (value: string): string => {
  if (!/^https?:$/.test(URL.parse(value)?.protocol ?? '')) {
    throw new InvalidValue('is not an address such as http://collector:4318')
  }
  return value
}

const readSchedule = (value: string): RetrySchedule => {
  const schedule = readRetrySchedule(value)
  if (schedule === null) throw new InvalidValue(`is not a schedule such as 0s,5s,5m,2h (${waits})`)
  return schedule
}
const waits = `up to ${attemptsMax} waits of up to ${waitDaysMax}d, the first 0s`
const retrySchedule = Object.assign(readSchedule, { takes: waits })

/** Webhook deliveries: where they may go, how long they may take, when they are tried again, and what is kept. */
export const deliverySettings = {
  deliveryAllowNetworks: optional('KEYHOOK_DELIVERY_ALLOW_NETWORKS', networks).about(
    'Networks (CIDRs, separated by commas) that deliveries may go to although they are not public, such as `10.0.0.0/8`.',
  ),
  deliveryCa: optional(
    'KEYHOOK_DELIVERY_CA_FILE',
    certificateFile('"npx keyhook receive --print-certificate" creates one'),
  ).about('PEM file of certificate authorities that receivers may use besides the public ones.'),
  deliveryMsMax: setting('KEYHOOK_DELIVERY_TIMEOUT_MS', '15000', count(100, 300_000, 'milliseconds')).about(
    'Time that one attempt may take, from DNS to the last byte of the response.',
  ),
  deliveryConnectMsMax: setting('KEYHOOK_DELIVERY_CONNECT_TIMEOUT_MS', '5000', count(50, 60_000, 'milliseconds')).about(
    'Time that the connection of an attempt may take (DNS, TCP and TLS).',
  ),
  deliverySchedule: setting(
    'KEYHOOK_DELIVERY_RETRY_SCHEDULE',
    '0s,5s,5m,30m,2h,5h,10h,14h,20h,24h',
    retrySchedule,
  ).about(
    'Wait before each attempt of a delivery, separated by commas. There are as many attempts as waits; each wait varies by ±10 %.',
  ),
  deliveryStandardWebhooks: setting('KEYHOOK_DELIVERY_STANDARD_WEBHOOKS', 'on', oneOf('on', 'off')).about(
    '`on` adds the headers `webhook-id`, `webhook-timestamp` and `webhook-signature` to deliveries.',
  ),
  deliveryInFlightMax: setting('KEYHOOK_DELIVERY_IN_FLIGHT_MAX', '10000', count(1, 1_000_000, 'requests')).about(
    'Largest number of requests in flight in a process, and of connections that it keeps open between requests. Each takes about 65 KB and an open file. Requests use at most 60 %, and idle connections 30 %, of the open files of the process (`ulimit -n`).',
  ),
  deliveryLaneConcurrencyMax: setting('KEYHOOK_DELIVERY_PER_WEBHOOK_MAX', '32', count(1, 1_000, 'requests')).about(
    'Largest number of requests in flight to one webhook. Slow and failing receivers get fewer, down to one.',
  ),
  deliveryResponseKeptBytesMax: setting(
    'KEYHOOK_DELIVERY_RESPONSE_KEPT_BYTES_MAX',
    '16384',
    count(0, 1_048_576, 'bytes'),
  ).about('Bytes of a response body that are recorded.'),
  deliveryResponseBytesMax: setting(
    'KEYHOOK_DELIVERY_RESPONSE_BYTES_MAX',
    '1048576',
    count(1_024, 1_073_741_824, 'bytes'),
  ).about('Bytes of a response body that are read. An attempt with a larger response fails.'),
  deliveryLeaseMs: setting('KEYHOOK_DELIVERY_LEASE_MS', '10000', count(500, leaseMsMax, 'milliseconds')).about(
    'Time that a dispatcher holds a webhook without renewing its lease. Then another dispatcher takes over.',
  ),
  deliveryDrainMsMax: setting('KEYHOOK_DELIVERY_DRAIN_MS', '10000', count(0, 600_000, 'milliseconds')).about(
    'Time that a stopping process waits for requests in flight.',
  ),
  webhookSuspendAfterHours: setting('KEYHOOK_WEBHOOK_SUSPEND_AFTER_HOURS', '24', count(0, 720, 'hours')).about(
    'Hours of nothing but failed attempts after which a webhook is suspended: its deliveries wait, and it is tried every hour. 0: never. An owner can set another number for an organization. Set it alike on every node.',
  ),
  eventBytesMax: setting('KEYHOOK_EVENT_BYTES_MAX', '65536', count(1_024, 1_048_576, 'bytes')).about(
    'Largest `data` of an event in bytes, reported by `POST /operator/v1/events`.',
  ),
  retentionDays: optional('KEYHOOK_RETENTION_DAYS', count(1, 36_500, 'days')).about(
    'Days after which delivery attempts and finished events are deleted, a week at a time. If unset, they are kept.',
  ),
  metricsToken: secret(
    'KEYHOOK_METRICS_TOKEN',
    matching(/^[A-Za-z0-9._~+/-]+=*$/, 'a bearer token (letters, digits and . _ ~ + / -, then perhaps =)'),
  ).about(
    'Bearer token for `GET /metrics`. If unset, callers on the same machine are answered, also through a local proxy that adds no `X-Forwarded-For`, `Forwarded` or `Via`.',
  ),
  metricsPort: optional('KEYHOOK_METRICS_PORT', integer(0, 65_535, 'a port')).about(
    'Port on which a process without the API answers `/healthz`, `/readyz` and `/metrics`. If unset, it does not listen.',
  ),
  otlpEndpoint: optional('OTEL_EXPORTER_OTLP_ENDPOINT', otlpUrl).about(
    'Address for traces (OTLP over HTTP); `/v1/traces` is appended. If unset, there are no traces. Other `OTEL_` variables apply too (docs/monitoring.md).',
  ),
  otlpTracesEndpoint: optional('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', otlpUrl).about(
    'Complete address for traces, to which nothing is appended.',
  ),
  otelSdkDisabled: setting('OTEL_SDK_DISABLED', 'false', oneOf('false', 'true')).about(
    '`true` turns traces off, whatever the addresses are.',
  ),
} as const
