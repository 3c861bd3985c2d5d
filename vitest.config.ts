import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts'],
    // One PostgreSQL for the run; each file clones its own database from a migrated template.
    globalSetup: 'packages/server/test/support/postgres.ts',
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
