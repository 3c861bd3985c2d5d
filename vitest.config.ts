import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** `npm run test:long` runs these, `npm test` the others and then those in a browser, and `npm test -- <file>` any. */
const longFiles = ['packages/*/test/**/*.long.test.ts']
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
      'packages/server/test/kit/leftovers.ts',
      'packages/server/test/kit/postgres.ts',
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
