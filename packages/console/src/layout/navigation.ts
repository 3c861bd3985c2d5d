import {
  Activity,
  Database,
  House,
  KeyRound,
  ListTree,
  type LucideIcon,
  Receipt,
  ScrollText,
  Settings,
  Users,
  Webhook,
} from 'lucide-react'

export type Destination = {
  to:
    | '/$orgId'
    | '/$orgId/keys'
    | '/$orgId/webhooks'
    | '/$orgId/deliveries'
    | '/$orgId/events'
    | '/$orgId/databases'
    | '/$orgId/invoices'
    | '/$orgId/audit'
    | '/$orgId/members'
    | '/$orgId/settings'
  label: string
  icon: LucideIcon
  /** The permission without which the page would be empty. */
  needs?: string
}

/** The pages of an organization, in the sidebar and in the command palette. */
export const destinations: readonly { group: string | null; pages: readonly Destination[] }[] = [
  { group: null, pages: [{ to: '/$orgId', label: 'Home', icon: House }] },
  {
    group: 'Webhooks',
    pages: [
      { to: '/$orgId/webhooks', label: 'Webhooks', icon: Webhook, needs: 'webhooks:read' },
      { to: '/$orgId/deliveries', label: 'Deliveries', icon: Activity, needs: 'deliveries:read' },
      { to: '/$orgId/events', label: 'Events', icon: ListTree, needs: 'events:read' },
    ],
  },
  {
    group: 'Platform',
    pages: [
      { to: '/$orgId/keys', label: 'API keys', icon: KeyRound, needs: 'keys:read' },
      { to: '/$orgId/databases', label: 'Databases', icon: Database, needs: 'databases:read' },
    ],
  },
  {
    group: 'Organization',
    pages: [
      { to: '/$orgId/members', label: 'Members', icon: Users, needs: 'members:read' },
      { to: '/$orgId/invoices', label: 'Invoices', icon: Receipt, needs: 'invoices:read' },
      { to: '/$orgId/audit', label: 'Audit log', icon: ScrollText, needs: 'audit:read' },
      { to: '/$orgId/settings', label: 'Settings', icon: Settings },
    ],
  },
]
