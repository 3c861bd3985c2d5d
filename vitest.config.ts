import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts'],
    // One PostgreSQL for the run; each file clones its own database from a migrated template.
    globalSetup: 'packages/server/test/support/postgres.ts',
    // Tests mostly wait, for processes and for PostgreSQL: two at once even on two cores. Few, for all share that one server.
    maxWorkers: Math.min(4, Math.max(2, availableParallelism() - 1)),
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
