import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { leaseMsMax } from '../domain/lease.ts'
import { type Network, readNetwork } from '../domain/network.ts'
import { attemptsMax, type RetrySchedule, readRetrySchedule, waitDaysMax } from '../domain/retry-schedule.ts'
import { InvalidValue, integer, matching, oneOf, optional, setting } from './setting.ts'

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

/** Read at the start, so that a missing file is reported then and not at the first delivery. */
const certificates = (path: string): string => {
  try {
    const pem = readFileSync(path, 'utf8')
    new X509Certificate(pem)
    return pem
  } catch (error) {
    throw new InvalidValue(
      `is not a readable file of PEM certificates (${(error as Error).message}); "npx keyhook receive --print-certificate" creates one`,
    )
  }
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
  deliveryAllowNetworks: optional(
    'KEYHOOK_DELIVERY_ALLOW_NETWORKS',
    networks,
    'Networks (CIDRs, comma-separated) that deliveries may go to although they are not public, such as `10.0.0.0/8`.',
  ),
  deliveryCa: optional(
    'KEYHOOK_DELIVERY_CA_FILE',
    certificates,
    'PEM file of certificate authorities that receivers may use besides the public ones.',
  ),
  deliveryMsMax: setting(
    'KEYHOOK_DELIVERY_TIMEOUT_MS',
    '15000',
    integer(100, 300_000, 'a number of milliseconds'),
    'How long one attempt may take, from DNS to the last byte of the response.',
  ),
  deliveryConnectMsMax: setting(
    'KEYHOOK_DELIVERY_CONNECT_TIMEOUT_MS',
    '5000',
    integer(50, 60_000, 'a number of milliseconds'),
    'How much of that the connection may take (DNS, TCP, TLS).',
  ),
  deliverySchedule: setting(
    'KEYHOOK_DELIVERY_RETRY_SCHEDULE',
    '0s,5s,5m,30m,2h,5h,10h,14h,20h,24h',
    retrySchedule,
    'Waits before each attempt of a delivery; there are as many attempts as waits. Each varies by ±10 %.',
  ),
  deliveryStandardWebhooks: setting(
    'KEYHOOK_DELIVERY_STANDARD_WEBHOOKS',
    'on',
    oneOf('on', 'off'),
    'Whether deliveries carry `webhook-id`, `webhook-timestamp` and `webhook-signature` too.',
  ),
  deliveryInFlightMax: setting(
    'KEYHOOK_DELIVERY_IN_FLIGHT_MAX',
    '10000',
    integer(1, 1_000_000, 'a number of requests'),
    "Most requests to receivers that a process has in flight, and most connections that it keeps open between them. Each takes some 65 KB and an open file: at most 60 % of the process's limit (`ulimit -n`) are used for the former, which is logged when it is less than the setting, and 30 % for the latter.",
  ),
  deliveryLaneConcurrencyMax: setting(
    'KEYHOOK_DELIVERY_PER_WEBHOOK_MAX',
    '32',
    integer(1, 1_000, 'a number of requests'),
    'Most of them to one webhook; slow and failing receivers get fewer, down to one.',
  ),
  deliveryResponseKeptBytesMax: setting(
    'KEYHOOK_DELIVERY_RESPONSE_KEPT_BYTES_MAX',
    '16384',
    integer(0, 1_048_576, 'a number of bytes'),
    "How much of a response's body is recorded.",
  ),
  deliveryResponseBytesMax: setting(
    'KEYHOOK_DELIVERY_RESPONSE_BYTES_MAX',
    '1048576',
    integer(1_024, 1_073_741_824, 'a number of bytes'),
    'How much of it is read; an attempt whose response is larger has failed.',
  ),
  deliveryLeaseMs: setting(
    'KEYHOOK_DELIVERY_LEASE_MS',
    '10000',
    integer(500, leaseMsMax, 'a number of milliseconds'),
    'How long a dispatcher may hold a webhook without renewing; then others take over.',
  ),
  deliveryDrainMsMax: setting(
    'KEYHOOK_DELIVERY_DRAIN_MS',
    '10000',
    integer(0, 600_000, 'a number of milliseconds'),
    'How long a process that stops waits for deliveries in flight.',
  ),
  eventBytesMax: setting(
    'KEYHOOK_EVENT_BYTES_MAX',
    '65536',
    integer(1_024, 1_048_576, 'a number of bytes'),
    'Largest `data` of an event that is reported through `POST /operator/v1/events`.',
  ),
  retentionDays: optional(
    'KEYHOOK_RETENTION_DAYS',
    integer(1, 36_500, 'a number of days'),
    'After so many days delivery attempts and finished events are deleted, in weeks. Unset: they are kept.',
  ),
  metricsToken: optional(
    'KEYHOOK_METRICS_TOKEN',
    matching(/^[A-Za-z0-9._~+/-]+=*$/, 'a bearer token (letters, digits and . _ ~ + / -, then perhaps =)'),
    'Bearer token that `GET /metrics` asks for. Unset: it answers callers on the same machine only, and requests through a proxy there that adds no `X-Forwarded-For`, `Forwarded` or `Via`.',
    true,
  ),
  metricsPort: optional(
    'KEYHOOK_METRICS_PORT',
    integer(0, 65_535, 'a port'),
    'Where a process without the API answers `/healthz`, `/readyz` and `/metrics`. Unset: it does not listen.',
  ),
  otlpEndpoint: optional(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    otlpUrl,
    'Where traces are exported to, by OTLP over HTTP; `/v1/traces` is appended. Unset: there are no traces. Other standard `OTEL_` variables apply too (`docs/monitoring.md`).',
  ),
  otlpTracesEndpoint: optional(
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    otlpUrl,
    'The same as a whole address, to which nothing is appended.',
  ),
  otelSdkDisabled: setting(
    'OTEL_SDK_DISABLED',
    'false',
    oneOf('false', 'true'),
    '`true`: no traces, whatever the addresses are.',
  ),
} as const
