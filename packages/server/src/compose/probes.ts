import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Database } from '../db/database.ts'
import { createApp } from '../http/app.ts'
import { addHealthRoutes } from '../http/health.ts'
import { addMetricsRoute } from '../http/metrics-route.ts'
import type { Metrics } from '../metrics.ts'
import type { Installation } from '../startup/open.ts'

/** What a process without the API answers: whether it lives, whether it can work, and how it does. */
export function composeProbes(
  { db, config }: Installation,
  { log, metrics, pools }: { log: Logger; metrics: Metrics; pools: readonly Database[] },
): FastifyInstance {
  const limits = { requestBytesMax: config.requestBytesMax }
  const { app } = createApp({ limits, trustedProxies: config.trustedProxies, log })
  addProbes(app, { config, metrics, pools: [db, ...pools] })
  return app
}

export function addProbes(
  app: FastifyInstance,
  { config, metrics: { registry }, pools }: { config: Config; metrics: Metrics; pools: readonly Database[] },
): void {
  addHealthRoutes(app, { pools })
  const metrics = () => registry.metrics()
  addMetricsRoute(app, { metrics, contentType: registry.contentType, token: config.metricsToken })
}
