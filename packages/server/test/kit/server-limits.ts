import { vi } from 'vitest'

/** Imported by short tests that start servers, compile or write much: 30 seconds are not enough for these on a busy machine. */
vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 })
