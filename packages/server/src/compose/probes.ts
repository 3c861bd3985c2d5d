import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { Database } from '../db/database.ts'
import type { StorageReport } from '../domain/storage.ts'
import { createApp } from '../http/app.ts'
import { addHealthRoutes } from '../http/health.ts'
import { addMetricsRoute } from '../http/metrics-route.ts'
import { readJobFigures } from '../platform/jobs/job-figures.ts'
import type { Installation } from '../startup/open.ts'
import { readClusterFigures } from '../store/cluster-figures.ts'
import { deadAfterSeconds } from '../store/platform/nodes.ts'
import type { ClusterReading } from '../telemetry/cluster-gauges.ts'
import type { Metrics } from '../telemetry/metrics.ts'

/** In a process that runs databases. */
export type ReadStorage = () => StorageReport

/** What a process without the API answers: whether it lives, whether it can work, and how it does. */
export function composeProbes(
  { db, config }: Installation,
  { log, ...parts }: { log: Logger; metrics: Metrics; pools: readonly Database[]; storage?: ReadStorage },
): FastifyInstance {
  const limits = { requestBytesMax: config.requestBytesMax }
  const { app } = createApp({ limits, trustedProxies: config.trustedProxies, log })
  addProbes(app, { config, db, log, ...parts, pools: [db, ...parts.pools] })
  return app
}

async function readCluster({ db, log }: { db: Database; log: Logger }): Promise<ClusterReading> {
  try {
    const figures = await readClusterFigures(db, { deadAfterSeconds })
    return { ...figures, jobs: await readJobFigures(db) }
  } catch (err) {
    log.warn({ err }, 'metrics.cluster_not_read')
    throw err
  }
}

export function addProbes(
  app: FastifyInstance,
  parts: {
    config: Config
    db: Database
    log: Logger
    metrics: Metrics
    pools: readonly Database[]
    storage?: ReadStorage | undefined
    draining?: AbortSignal
  },
): void {
  const { config, pools, storage, draining, metrics } = parts
  addHealthRoutes(app, { pools, storage, draining })
  metrics.watchPools(pools)
  metrics.watchCluster(() => readCluster(parts))
  addMetricsRoute(app, { metrics: metrics.text, contentType: metrics.contentType, token: config.metricsToken })
}
