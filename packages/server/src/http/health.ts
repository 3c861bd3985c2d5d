import type { FastifyInstance } from 'fastify'
import type { Database } from '../store/database.ts'
import { unavailable } from './problems.ts'

/** Alive: the process answers. Ready: it can do its work, because the database answers too. */
export function addHealthRoutes(app: FastifyInstance, deps: { db: Database }): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async () => {
    try {
      await deps.db`select 1`
    } catch (error) {
      throw unavailable(`not ready: ${error}`, error)
    }
    return { status: 'ok' }
  })
}
