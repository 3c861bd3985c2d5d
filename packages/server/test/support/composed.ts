import { type Logger, pino } from 'pino'
import { type Api, composeApi } from '../../src/compose/api.ts'
import { composeDispatcher, composeHints } from '../../src/compose/dispatcher.ts'
import { composeJobQueue } from '../../src/compose/platform.ts'
import { composeRoutes } from '../../src/compose/routes.ts'
import type { Route } from '../../src/http/route.ts'
import { createMetrics } from '../../src/metrics.ts'
import type { JobQueue } from '../../src/platform/jobs/queue.ts'
import type { Installation } from '../../src/startup/open.ts'

const silent = pino({ level: 'silent' })

/** What `serve --role api` runs. */
export function apiAlone(installation: Installation, log: Logger = silent): Api {
  const queue = composeJobQueue(installation, { log, worksOnJobs: false })
  const api = apiBeside(installation, queue, log)
  return {
    app: api.app,
    async close() {
      await api.close()
      await queue.close()
    },
  }
}

/** The API of a process that has a queue of jobs already. */
export const apiBeside = (installation: Installation, queue: JobQueue, log: Logger): Api =>
  composeApi(installation, { log, queue, hints: composeHints(installation, log), metrics: createMetrics(), pools: [] })

/** The route table, to be read; a handler that hands out a job would leave a queue open. */
export const routesOf = (installation: Installation): Route[] =>
  composeRoutes(installation, {
    queue: composeJobQueue(installation, { log: silent, worksOnJobs: false }),
    hints: composeHints(installation, silent),
    intakeDb: installation.db,
  })

/** What `serve --role dispatcher` runs; `hints` where somebody else in the process gives them. */
export const dispatcherAlone = (
  installation: Installation,
  log: Logger = silent,
  hints = composeHints(installation, log),
): ReturnType<typeof composeDispatcher> => composeDispatcher(installation, { log, hints, metrics: createMetrics() })
