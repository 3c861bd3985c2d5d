import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { basePath } from './address.ts'
import { whenServerIsBack } from './api/server-away.ts'
import { NotFound, PageError, PageLoading } from './layout/fallbacks.tsx'
import { OrganizationLayout } from './layout/organization-layout.tsx'
import { RootLayout } from './layout/root-layout.tsx'
import { readAuditSearch, readDeliverySearch, readEventSearch, readKeySearch } from './search.ts'

/** The code of a page, which may have to wait for the server. */
const page = <T extends Record<string, unknown>, Name extends keyof T>(load: () => Promise<T>, name: Name) =>
  lazyRouteComponent(() => load().catch(whenServerIsBack), name)

const root = createRootRoute({ component: RootLayout, notFoundComponent: NotFound })

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: page(() => import('./pages/start-page.tsx'), 'StartPage'),
})

const authorize = createRoute({
  getParentRoute: () => root,
  path: 'authorize',
  component: page(() => import('./pages/authorize-page.tsx'), 'AuthorizePage'),
})

const loadAccount = () => import('./pages/account/account-page.tsx')
const account = createRoute({
  getParentRoute: () => root,
  path: 'account',
  component: page(loadAccount, 'AnyAccountPage'),
})

const organization = createRoute({ getParentRoute: () => root, path: '$orgId', component: OrganizationLayout })
const inOrganization = { getParentRoute: () => organization }

const home = createRoute({
  ...inOrganization,
  path: '/',
  component: page(() => import('./pages/home/home-page.tsx'), 'HomePage'),
})
const keys = createRoute({
  ...inOrganization,
  path: 'keys',
  validateSearch: readKeySearch,
  component: page(() => import('./pages/keys/keys-page.tsx'), 'KeysPage'),
})
const webhooks = createRoute({
  ...inOrganization,
  path: 'webhooks',
  component: page(() => import('./pages/webhooks/webhooks-page.tsx'), 'WebhooksPage'),
})
const newWebhook = createRoute({
  ...inOrganization,
  path: 'webhooks/new',
  component: page(() => import('./pages/webhooks/new-webhook-page.tsx'), 'NewWebhookPage'),
})
const webhook = createRoute({
  ...inOrganization,
  path: 'webhooks/$webhookId',
  component: page(() => import('./pages/webhooks/webhook-page.tsx'), 'WebhookPage'),
})
const deliveries = createRoute({
  ...inOrganization,
  path: 'deliveries',
  validateSearch: readDeliverySearch,
  component: page(() => import('./pages/deliveries/deliveries-page.tsx'), 'DeliveriesPage'),
})
const events = createRoute({
  ...inOrganization,
  path: 'events',
  validateSearch: readEventSearch,
  component: page(() => import('./pages/events/events-page.tsx'), 'EventsPage'),
})
const event = createRoute({
  ...inOrganization,
  path: 'events/$eventId',
  component: page(() => import('./pages/events/event-page.tsx'), 'EventPage'),
})
const databases = createRoute({
  ...inOrganization,
  path: 'databases',
  component: page(() => import('./pages/databases/databases-page.tsx'), 'DatabasesPage'),
})
const database = createRoute({
  ...inOrganization,
  path: 'databases/$databaseId',
  component: page(() => import('./pages/databases/database-page.tsx'), 'DatabasePage'),
})
const invoices = createRoute({
  ...inOrganization,
  path: 'invoices',
  component: page(() => import('./pages/invoices/invoices-page.tsx'), 'InvoicesPage'),
})
const invoice = createRoute({
  ...inOrganization,
  path: 'invoices/$invoiceId',
  component: page(() => import('./pages/invoices/invoice-page.tsx'), 'InvoicePage'),
})
const audit = createRoute({
  ...inOrganization,
  path: 'audit',
  validateSearch: readAuditSearch,
  component: page(() => import('./pages/audit/audit-page.tsx'), 'AuditPage'),
})

const members = createRoute({
  ...inOrganization,
  path: 'members',
  component: page(() => import('./pages/members/members-page.tsx'), 'MembersPage'),
})
const settings = createRoute({
  ...inOrganization,
  path: 'settings',
  component: page(() => import('./pages/settings/settings-page.tsx'), 'SettingsPage'),
})
const ownAccount = createRoute({ ...inOrganization, path: 'account', component: page(loadAccount, 'AccountPage') })

const operator = createRoute({
  getParentRoute: () => root,
  path: 'operator',
  component: page(() => import('./layout/operator-layout.tsx'), 'OperatorLayout'),
})
const operatorOverview = createRoute({
  getParentRoute: () => operator,
  path: '/',
  component: page(() => import('./pages/operator/overview-page.tsx'), 'OverviewPage'),
})
const operatorOrganizations = createRoute({
  getParentRoute: () => operator,
  path: 'organizations',
  component: page(() => import('./pages/operator/organizations-page.tsx'), 'OrganizationsPage'),
})
const operatorUsers = createRoute({
  getParentRoute: () => operator,
  path: 'users',
  component: page(() => import('./pages/operator/users-page.tsx'), 'UsersPage'),
})
const operatorTokens = createRoute({
  getParentRoute: () => operator,
  path: 'tokens',
  component: page(() => import('./pages/operator/tokens-page.tsx'), 'TokensPage'),
})
const operatorAccount = createRoute({
  getParentRoute: () => operator,
  path: 'account',
  component: page(loadAccount, 'AccountPage'),
})

const routeTree = root.addChildren([
  start,
  authorize,
  account,
  operator.addChildren([operatorOverview, operatorOrganizations, operatorUsers, operatorTokens, operatorAccount]),
  organization.addChildren([
    home,
    keys,
    webhooks,
    newWebhook,
    webhook,
    deliveries,
    events,
    event,
    databases,
    database,
    invoices,
    invoice,
    audit,
    members,
    settings,
    ownAccount,
  ]),
])

export const router = createRouter({
  routeTree,
  basepath: basePath,
  defaultPreload: 'intent',
  defaultPendingComponent: PageLoading,
  defaultErrorComponent: PageError,
  scrollRestoration: false,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
