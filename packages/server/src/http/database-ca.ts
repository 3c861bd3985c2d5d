import type { FastifyInstance } from 'fastify'
import { notFound } from '../kernel/faults.ts'

/** The authority that clients of databases trust. Without a token: it is public, and `curl` saves it as it is. */
export function addDatabaseCa(app: FastifyInstance, readCa: () => Promise<string | null>): void {
  app.get('/database-ca.pem', async (_request, reply) => {
    const pem = await readCa()
    if (pem === null) throw notFound('databases have no certificate authority of their own')
    return reply.type('application/x-pem-file').header('x-content-type-options', 'nosniff').send(pem)
  })
}
