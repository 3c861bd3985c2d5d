import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** Packages of this repository are imported as TypeScript, without a build. */
const conditions = ['@keyhook/source']
const source = { resolve: { conditions }, ssr: { resolve: { conditions, externalConditions: conditions } } }

const longFiles = '**/*.long.test.ts'
const consoleFiles = 'packages/console/**'

/** `npm test` runs `short` and `browser`, `npm run test:long` the others, and `npm test -- <file>` any file. */
const projects = [
  { name: 'short', include: ['packages/*/test/**/*.test.ts'], exclude: [longFiles, consoleFiles], limitMs: 30_000 },
  { name: 'browser', include: ['packages/console/test/*.test.ts'], exclude: [longFiles], limitMs: 90_000 },
  { name: 'long', include: ['packages/*/test/**/*.long.test.ts'], exclude: [consoleFiles], limitMs: 180_000 },
  { name: 'long browser', include: ['packages/console/test/*.long.test.ts'], exclude: [], limitMs: 180_000 },
]

export default defineConfig({
  ...source,
  test: {
    // One PostgreSQL for the run; each file clones its own database from a migrated template.
    globalSetup: [
      'packages/server/test/kit/leftovers.ts',
      'packages/server/test/kit/postgres.ts',
      'packages/console/test/support/chromium.ts',
    ],
    teardownTimeout: 60_000,
    projects: projects.map(({ limitMs, ...files }) => ({
      ...source,
      test: {
        ...files,
        // Tests mostly wait for processes and for PostgreSQL: two at once even on two cores, and few, because they share one
        // server. A browser needs the whole machine.
        maxWorkers: files.name.endsWith('browser') ? 1 : Math.min(4, Math.max(2, availableParallelism() - 1)),
        // A hang fails within this time. Short tests that start servers have 90 s: kit/server-limits.ts.
        testTimeout: limitMs,
        hookTimeout: limitMs,
        expect: { requireAssertions: true, poll: { timeout: Math.min(60_000, limitMs - 5_000) } },
      },
    })),
  },
})
