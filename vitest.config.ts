import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** `npm run test:long` runs these, `npm test` the others and then those in a browser, and `npx vitest run <file>` any. */
const longFiles = [
  'cli/database-tls.test.ts',
  'cli/first-use.test.ts',
  'cli/lost-key.test.ts',
  'cli/self-backup.test.ts',
  'cli/serve.test.ts',
  'cli/shared-disk.test.ts',
  'cli/signals.test.ts',
  'cli/tenant-fills-disk.test.ts',
  'cli/two-roles.test.ts',
  'cli/unfit-machine.test.ts',
  'deploy/rolling-restart.test.ts',
  'docs/readme.test.ts',
  'embedded/data-directory-lock.test.ts',
  'embedded/killed.test.ts',
  'embedded/lifecycle.test.ts',
  'embedded/paths-and-accounts.test.ts',
  'failover/failover.test.ts',
  'failover/patroni.test.ts',
  'http/event-stream-killed.test.ts',
  'http/event-stream.test.ts',
  'http/lists.test.ts',
  'http/openapi.test.ts',
  'package/installed.test.ts',
  'platform/activity.test.ts',
  'platform/archive-quota.test.ts',
  'platform/backups-under-load.test.ts',
  'platform/backups.test.ts',
  'platform/blocked-databases.test.ts',
  'platform/databases.test.ts',
  'platform/dead-nodes.test.ts',
  'platform/extensions.test.ts',
  'platform/forged-wal.test.ts',
  'platform/hostile-s3.test.ts',
  'platform/isolation-modes.test.ts',
  'platform/isolation.test.ts',
  'platform/job-priorities.test.ts',
  'platform/killed.test.ts',
  'platform/kubernetes/kubernetes-driver.test.ts',
  'platform/kubernetes/kubernetes-faults.test.ts',
  'platform/kubernetes/kubernetes-platform.test.ts',
  'platform/local-driver.test.ts',
  'platform/memory-limits.test.ts',
  'platform/moves.test.ts',
  'platform/nodes.test.ts',
  'platform/own-binaries.test.ts',
  'platform/ownership.test.ts',
  'platform/point-in-time-killed.test.ts',
  'platform/point-in-time.test.ts',
  'platform/s3-platform.test.ts',
  'platform/s3-point-in-time.test.ts',
  'platform/silent-clients.test.ts',
  'platform/storage-limits.test.ts',
  'platform/tls.test.ts',
  'platform/unusual-files.test.ts',
  'platform/wal-archiving.test.ts',
  'store/lost-connections.test.ts',
  'telemetry/prometheus.test.ts',
  'telemetry/traces.test.ts',
  'terminal/listen-crash.test.ts',
  'terminal/listen.test.ts',
  'terminal/platform.test.ts',
  'webhooks/clock-set-back.test.ts',
  'webhooks/crash.test.ts',
  'webhooks/custom-event-types.test.ts',
  'webhooks/delivery.test.ts',
  'webhooks/held-publishers.test.ts',
  'webhooks/invariants.test.ts',
  'webhooks/locked-lanes.test.ts',
  'webhooks/postgres-crash.test.ts',
  'webhooks/sender/http1/paused-process.test.ts',
  'webhooks/settings.test.ts',
].map((path) => `packages/server/test/${path}`)
longFiles.push('packages/console/test/connection-samples.test.ts')

const browserFiles = ['packages/console/test/**/*.test.ts']

const suite = process.env.TEST_SUITE
const include = suite === 'long' ? longFiles : suite === 'browser' ? browserFiles : ['packages/*/test/**/*.test.ts']

/** Packages of this repository are imported as TypeScript, without a build. */
const conditions = ['@keyhook/source']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include,
    exclude: suite === 'short' ? [...longFiles, ...browserFiles] : suite === 'browser' ? longFiles : [],
    // One PostgreSQL for the run; each file clones its own database from a migrated template.
    globalSetup: [
      'packages/server/test/support/leftovers.ts',
      'packages/server/test/support/postgres.ts',
      ...(suite === undefined || suite === 'browser' ? ['packages/console/test/support/chromium.ts'] : []),
    ],
    // Tests mostly wait for processes and for PostgreSQL: two at once even on two cores, and few, because they share one server.
    maxWorkers: suite === 'browser' ? 1 : Math.min(4, Math.max(2, availableParallelism() - 1)),
    // The limits only tell a hang from an answer: the machine may be busy.
    testTimeout: 180_000,
    hookTimeout: 120_000,
    teardownTimeout: 60_000,
    expect: { requireAssertions: true, poll: { timeout: 60_000 } },
  },
})
