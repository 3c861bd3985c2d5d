import type { FastifyInstance } from 'fastify'
import type { OpenApi } from '../openapi/openapi.ts'
import { referencePage } from './reference-page.ts'
import { readRegister } from './register.ts'

/** The machine-readable document and the page for people, both made once at start. */
export function addReference(app: FastifyInstance, document: OpenApi): void {
  const json = JSON.stringify(document)
  const page = referencePage(document, readRegister())
  app.get('/openapi.json', async (_request, reply) => reply.type('application/json; charset=utf-8').send(json))
  // For whoever opens the address that the first start prints in a browser.
  app.get('/', async (_request, reply) => reply.redirect('/docs'))
  app.get('/docs', async (_request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .header(
        'content-security-policy',
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
      )
      .header('x-content-type-options', 'nosniff')
      .send(page),
  )
}
