import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Database } from '../db/database.ts'
import type { StorageReport } from '../domain/storage.ts'
import { createApp } from '../http/app.ts'
import { addHealthRoutes } from '../http/health.ts'
import { addMetricsRoute } from '../http/metrics-route.ts'
import type { Metrics } from '../metrics.ts'
import type { Installation } from '../startup/open.ts'

/** In a process that runs databases. */
export type ReadStorage = () => StorageReport

/** What a process without the API answers: whether it lives, whether it can work, and how it does. */
export function composeProbes(
  { db, config }: Installation,
  { log, ...parts }: { log: Logger; metrics: Metrics; pools: readonly Database[]; storage?: ReadStorage },
): FastifyInstance {
  const limits = { requestBytesMax: config.requestBytesMax }
  const { app } = createApp({ limits, trustedProxies: config.trustedProxies, log })
  addProbes(app, { config, ...parts, pools: [db, ...parts.pools] })
  return app
}

export function addProbes(
  app: FastifyInstance,
  parts: { config: Config; metrics: Metrics; pools: readonly Database[]; storage?: ReadStorage | undefined },
): void {
  const { config, pools, storage } = parts
  const { registry } = parts.metrics
  addHealthRoutes(app, { pools, storage })
  const metrics = () => registry.metrics()
  addMetricsRoute(app, { metrics, contentType: registry.contentType, token: config.metricsToken })
}
