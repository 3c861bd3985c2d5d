import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'

type Guide = { name: string; title: string; about: string }

/** The pages of docs/ for those who use a server. They are served, so that they are there without another host. */
export const guides: readonly Guide[] = [
  { name: 'quick-start', title: 'Quick start', about: 'From a clone to a verified webhook in your own program.' },
  { name: 'api-keys', title: 'API keys', about: 'Create, limit, replace and revoke keys; what each role may do.' },
  {
    name: 'receiving-webhooks',
    title: 'Receiving webhooks',
    about: 'Check a delivery in any language; events, their list and their stream.',
  },
  { name: 'databases', title: 'Databases', about: 'Connect, back up and restore.' },
  { name: 'client', title: 'Client', about: '`@keyhook/client` for TypeScript and JavaScript.' },
  { name: 'terminal', title: 'Terminal', about: 'All commands of `keyhook`.' },
  { name: 'console', title: 'Console', about: 'The web console.' },
  { name: 'errors', title: 'Errors', about: 'Every error, and what to do.' },
]

export const guidePath = ({ name }: Guide): string => `/docs/guides/${name}.md`

/** In the published package, and in a checkout. */
const folders = ['../guides/', '../../../../docs/'].map((path) => new URL(path, import.meta.url))

export function addGuides(app: FastifyInstance): void {
  for (const guide of guides) {
    const file = folders.map((folder) => new URL(`${guide.name}.md`, folder)).find((one) => existsSync(one))
    if (file === undefined) throw new Error(`docs/${guide.name}.md is missing: this package was not built`)
    app.get(guidePath(guide), async (_request, reply) =>
      reply
        .type('text/plain; charset=utf-8')
        .header('x-content-type-options', 'nosniff')
        .send(await readFile(file, 'utf8')),
    )
  }
}
