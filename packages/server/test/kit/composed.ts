import { type Logger, pino } from 'pino'
import { createAccessLookup } from '../../src/access/access.ts'
import { createAuthenticate } from '../../src/access/authenticate.ts'
import { type Api, composeApi } from '../../src/compose/api.ts'
import { composeDispatcher, composeHints } from '../../src/compose/dispatcher.ts'
import { composeJobQueue } from '../../src/compose/platform.ts'
import { composeRoutes } from '../../src/compose/routes.ts'
import type { Route } from '../../src/http/route.ts'
import type { JobQueue } from '../../src/jobs/queue.ts'
import type { LineLog } from '../../src/lib/log.ts'
import { createLoginTokens } from '../../src/login/login-tokens.ts'
import type { Installation } from '../../src/startup/open.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'

const silent = pino({ level: 'silent' })

/** The lines of attempts, in a log of any kind. */
const linesIn = (log: Logger): LineLog => ({
  isOn: () => log.isLevelEnabled('info'),
  write: (fields) => log.info(JSON.parse(`{${fields}}`)),
})

/** The parts of `serve --role api`. */
export function apiAlone(
  installation: Installation,
  log: Logger = silent,
  consoleDirectory: string | null = null,
): Api {
  const queue = composeJobQueue(installation, { log, worksOnJobs: false })
  const api = apiBeside(installation, queue, log, consoleDirectory)
  return {
    ...api,
    async close() {
      await api.close()
      await queue.close()
    },
  }
}

/** The API of a process that has a job queue already. */
export const apiBeside = (
  installation: Installation,
  queue: JobQueue,
  log: Logger,
  consoleDirectory: string | null = null,
): Api =>
  composeApi(installation, {
    log,
    queue,
    hints: composeHints(installation, log),
    metrics: createMetrics(),
    pools: [],
    consoleDirectory,
  })

/** The route table, for reading only: a handler that creates a job would leave a queue open. */
export const routesOf = (installation: Installation): Route[] =>
  composeRoutes(installation, {
    queue: composeJobQueue(installation, { log: silent, worksOnJobs: false }),
    hints: composeHints(installation, silent),
    intakeDb: installation.db,
    authenticate: createAuthenticate({
      lookup: createAccessLookup(installation.db),
      loginTokens: createLoginTokens({ issuers: [] }),
      isOperatorToken: async () => false,
      firstLogins: { pin: async () => false, create: async () => false },
      isOperatorSession: async () => false,
      findOrganization: async () => null,
    }),
    keyUses: { note() {}, noteRefusal() {}, close: async () => {} },
    feed: { open: () => null, stopping: new AbortController().signal, close: async () => {} },
  })

/** The parts of `serve --role dispatcher`; with `hints` if another part of the process publishes. */
export const dispatcherAlone = (
  installation: Installation,
  log: Logger = silent,
  hints = composeHints(installation, log),
): ReturnType<typeof composeDispatcher> =>
  composeDispatcher(installation, { log, lines: linesIn(log), hints, metrics: createMetrics() })
