import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { deadAfterSeconds } from '../databases/node-sql.ts'
import type { StorageReport } from '../databases/storage-rules.ts'
import type { Database } from '../db/database.ts'
import { createApp } from '../http/app.ts'
import { readJobMetrics } from '../jobs/worker.ts'
import type { Config } from '../settings/config.ts'
import type { Installation } from '../startup/open.ts'
import type { ClusterReading } from '../telemetry/cluster-metrics.ts'
import { readClusterMetrics } from '../telemetry/cluster-metrics.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { addHealthRoutes, addMetricsRoute } from '../telemetry/probes.ts'

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
    const metrics = await readClusterMetrics(db, { deadAfterSeconds })
    return { ...metrics, jobs: await readJobMetrics(db) }
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
