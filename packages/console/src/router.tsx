import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { basePath } from './address.ts'
import { NotFound, PageError, PageLoading } from './layout/fallbacks.tsx'
import { OrganizationLayout } from './layout/organization-layout.tsx'
import { RootLayout } from './layout/root-layout.tsx'
import { readAuditSearch, readDeliverySearch, readEventSearch, readKeySearch } from './search.ts'

const root = createRootRoute({ component: RootLayout, notFoundComponent: NotFound })

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyRouteComponent(() => import('./pages/start-page.tsx'), 'StartPage'),
})

const authorize = createRoute({
  getParentRoute: () => root,
  path: 'authorize',
  component: lazyRouteComponent(() => import('./pages/authorize-page.tsx'), 'AuthorizePage'),
})

const organization = createRoute({ getParentRoute: () => root, path: '$orgId', component: OrganizationLayout })
const inOrganization = { getParentRoute: () => organization }

const home = createRoute({
  ...inOrganization,
  path: '/',
  component: lazyRouteComponent(() => import('./pages/home/home-page.tsx'), 'HomePage'),
})
const keys = createRoute({
  ...inOrganization,
  path: 'keys',
  validateSearch: readKeySearch,
  component: lazyRouteComponent(() => import('./pages/keys/keys-page.tsx'), 'KeysPage'),
})
const webhooks = createRoute({
  ...inOrganization,
  path: 'webhooks',
  component: lazyRouteComponent(() => import('./pages/webhooks/webhooks-page.tsx'), 'WebhooksPage'),
})
const newWebhook = createRoute({
  ...inOrganization,
  path: 'webhooks/new',
  component: lazyRouteComponent(() => import('./pages/webhooks/new-webhook-page.tsx'), 'NewWebhookPage'),
})
const webhook = createRoute({
  ...inOrganization,
  path: 'webhooks/$webhookId',
  component: lazyRouteComponent(() => import('./pages/webhooks/webhook-page.tsx'), 'WebhookPage'),
})
const deliveries = createRoute({
  ...inOrganization,
  path: 'deliveries',
  validateSearch: readDeliverySearch,
  component: lazyRouteComponent(() => import('./pages/deliveries/deliveries-page.tsx'), 'DeliveriesPage'),
})
const events = createRoute({
  ...inOrganization,
  path: 'events',
  validateSearch: readEventSearch,
  component: lazyRouteComponent(() => import('./pages/events/events-page.tsx'), 'EventsPage'),
})
const event = createRoute({
  ...inOrganization,
  path: 'events/$eventId',
  component: lazyRouteComponent(() => import('./pages/events/event-page.tsx'), 'EventPage'),
})
const databases = createRoute({
  ...inOrganization,
  path: 'databases',
  component: lazyRouteComponent(() => import('./pages/databases/databases-page.tsx'), 'DatabasesPage'),
})
const database = createRoute({
  ...inOrganization,
  path: 'databases/$databaseId',
  component: lazyRouteComponent(() => import('./pages/databases/database-page.tsx'), 'DatabasePage'),
})
const invoices = createRoute({
  ...inOrganization,
  path: 'invoices',
  component: lazyRouteComponent(() => import('./pages/invoices/invoices-page.tsx'), 'InvoicesPage'),
})
const invoice = createRoute({
  ...inOrganization,
  path: 'invoices/$invoiceId',
  component: lazyRouteComponent(() => import('./pages/invoices/invoice-page.tsx'), 'InvoicePage'),
})
const audit = createRoute({
  ...inOrganization,
  path: 'audit',
  validateSearch: readAuditSearch,
  component: lazyRouteComponent(() => import('./pages/audit/audit-page.tsx'), 'AuditPage'),
})

const members = createRoute({
  ...inOrganization,
  path: 'members',
  component: lazyRouteComponent(() => import('./pages/members/members-page.tsx'), 'MembersPage'),
})
const settings = createRoute({
  ...inOrganization,
  path: 'settings',
  component: lazyRouteComponent(() => import('./pages/settings/settings-page.tsx'), 'SettingsPage'),
})

const operator = createRoute({
  getParentRoute: () => root,
  path: 'operator',
  component: lazyRouteComponent(() => import('./layout/operator-layout.tsx'), 'OperatorLayout'),
})
const operatorOverview = createRoute({
  getParentRoute: () => operator,
  path: '/',
  component: lazyRouteComponent(() => import('./pages/operator/overview-page.tsx'), 'OverviewPage'),
})
const operatorOrganizations = createRoute({
  getParentRoute: () => operator,
  path: 'organizations',
  component: lazyRouteComponent(() => import('./pages/operator/organizations-page.tsx'), 'OrganizationsPage'),
})
const operatorUsers = createRoute({
  getParentRoute: () => operator,
  path: 'users',
  component: lazyRouteComponent(() => import('./pages/operator/users-page.tsx'), 'UsersPage'),
})
const operatorTokens = createRoute({
  getParentRoute: () => operator,
  path: 'tokens',
  component: lazyRouteComponent(() => import('./pages/operator/tokens-page.tsx'), 'TokensPage'),
})

const routeTree = root.addChildren([
  start,
  authorize,
  operator.addChildren([operatorOverview, operatorOrganizations, operatorUsers, operatorTokens]),
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
