import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { createAuthenticate } from './http/authenticate.ts'
import { addHealthRoutes } from './http/health.ts'
import { createOpenApi } from './http/openapi.ts'
import { auditLogRoutes } from './http/platform/audit-log.ts'
import { apiKeyRoutes } from './http/published/api-keys.ts'
import { organizationRoutes } from './http/published/organizations.ts'
import { webhookRoutes } from './http/published/webhooks.ts'
import { addReference } from './http/reference.ts'
import type { Route } from './http/route.ts'
import { createHttpServer } from './http/server.ts'
import { createLocalIssuer } from './login/local-issuer.ts'
import { createLoginTokens } from './login/login-tokens.ts'
import { createOpenIdIssuer } from './login/openid-issuer.ts'
import type { Installation } from './startup/open.ts'
import { createAccessLookup } from './store/access-batch.ts'
import { connect } from './store/database.ts'
import { createKeyUses } from './store/key-uses.ts'

/*
 * The one place that knows who is plugged into whom.
 */

/** Connections that only authentication uses: a slow list on the shared pool must not hold up who may come in. */
const accessConnections = 2

export type Api = { app: FastifyInstance; close(): Promise<void> }

export function composeRoutes({ db, masterKeys, config }: Installation): Route[] {
  return [
    ...organizationRoutes({ db }),
    ...apiKeyRoutes({ db, keyTag: config.keyTag, keysPerOrgMax: config.keysPerOrgMax }),
    ...webhookRoutes({ db, masterKeys, webhooksPerOrgMax: config.webhooksPerOrgMax }),
    ...auditLogRoutes({ db }),
  ]
}

export function composeApi(installation: Installation, log: Logger): Api {
  const { config, db, target, masterKeys } = installation
  const now = () => new Date()
  const accessDb = connect(target, { name: 'keyhook access', connectionsMax: accessConnections })
  const keyUses = createKeyUses({ db, now, onError: (err) => log.warn({ err }, 'key_uses.not_written') })
  const issuers = [
    createLocalIssuer({ masterKeys, now }),
    ...(config.oidcIssuer === null
      ? []
      : [createOpenIdIssuer({ issuer: config.oidcIssuer, audience: config.oidcAudience!, now })]),
  ]
  const routes = composeRoutes(installation)
  const app = createHttpServer({
    routes,
    authenticate: createAuthenticate({
      lookup: createAccessLookup(accessDb),
      loginTokens: createLoginTokens({ issuers }),
    }),
    keyUses,
    limits: { requestBytesMax: config.requestBytesMax },
    trustedProxies: config.trustedProxies,
    log,
  })
  addHealthRoutes(app, { db })
  addReference(app, createOpenApi(routes))
  return {
    app,
    async close() {
      await app.close()
      await keyUses.close()
      await accessDb.end({ timeout: 5 })
    },
  }
}
