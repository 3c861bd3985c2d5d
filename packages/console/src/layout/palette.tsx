import '../styles/palette.css'
import { Dialog as Base } from '@base-ui/react/dialog'
import { useQuery } from '@tanstack/react-query'
import { type NavigateOptions, useNavigate } from '@tanstack/react-router'
import { Command } from 'cmdk'
import { ArrowRight, Database, KeyRound, type LucideIcon, Moon, Plus, Sun, Webhook, Zap } from 'lucide-react'
import { useState } from 'react'
import { client } from '../api/client.ts'
import { type CurrentOrganization, useSession } from '../api/organization.ts'
import { setTheme } from '../theme.ts'
import { destinations } from './navigation.ts'

type Props = { organization: CurrentOrganization; onClose: () => void }

/** Everything by its name, and any record by its id. */
export default function Palette({ organization, onClose }: Props) {
  const [text, setText] = useState('')
  const navigate = useNavigate()
  const { organizations } = useSession()
  const orgId = organization.id
  const found = useRecords(organization)
  const run = (action: () => unknown) => () => {
    onClose()
    void action()
  }
  const id = text.trim()
  const opened = recordById(orgId, id)
  return (
    <Base.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className="dialog palette" aria-label="Command palette">
          <Command label="Command palette" loop filter={matches}>
            <Command.Input autoFocus value={text} onValueChange={setText} placeholder="Search, or paste an id…" />
            <Command.List>
              <Command.Empty>
                Nothing with this name was found. Paste the id of an event, delivery, webhook or database to open it.
              </Command.Empty>
              {opened && (
                <Item icon={Zap} value={id} onSelect={run(() => navigate(opened.target))}>
                  Open {opened.what} {id}
                </Item>
              )}
              <Command.Group heading="Actions">
                {organization.can('webhooks:create') && (
                  <Item
                    icon={Plus}
                    value="Create webhook"
                    onSelect={run(() => navigate({ to: '/$orgId/webhooks/new', params: { orgId } }))}
                  >
                    Create webhook
                  </Item>
                )}
                {organization.can('keys:create') && (
                  <Item
                    icon={KeyRound}
                    value="Create API key"
                    onSelect={run(() => navigate({ to: '/$orgId/keys', params: { orgId }, hash: 'create' }))}
                  >
                    Create API key
                  </Item>
                )}
                {organization.can('databases:create') && (
                  <Item
                    icon={Database}
                    value="Create database"
                    onSelect={run(() => navigate({ to: '/$orgId/databases', params: { orgId }, hash: 'create' }))}
                  >
                    Create database
                  </Item>
                )}
                <Item icon={Sun} value="Light theme" onSelect={run(() => setTheme('light'))}>
                  Light theme
                </Item>
                <Item icon={Moon} value="Dark theme" onSelect={run(() => setTheme('dark'))}>
                  Dark theme
                </Item>
              </Command.Group>
              <Command.Group heading="Pages">
                {destinations
                  .flatMap(({ pages }) => pages)
                  .filter(({ needs }) => needs === undefined || organization.can(needs))
                  .map(({ to, label, icon }) => (
                    <Item key={to} icon={icon} value={label} onSelect={run(() => navigate({ to, params: { orgId } }))}>
                      {label}
                    </Item>
                  ))}
              </Command.Group>
              <Command.Group heading="Webhooks">
                {found.webhooks.map(({ id: webhookId, url, description }) => (
                  <Item
                    key={webhookId}
                    icon={Webhook}
                    value={`${webhookId} ${url} ${description ?? ''}`}
                    onSelect={run(() => navigate({ to: '/$orgId/webhooks/$webhookId', params: { orgId, webhookId } }))}
                  >
                    {url}
                  </Item>
                ))}
              </Command.Group>
              <Command.Group heading="Databases">
                {found.databases.map(({ id: databaseId, name }) => (
                  <Item
                    key={databaseId}
                    icon={Database}
                    value={`${databaseId} ${name}`}
                    onSelect={run(() =>
                      navigate({ to: '/$orgId/databases/$databaseId', params: { orgId, databaseId } }),
                    )}
                  >
                    {name}
                  </Item>
                ))}
              </Command.Group>
              <Command.Group heading="Organizations">
                {organizations
                  .filter(({ id: other }) => other !== orgId)
                  .map(({ id: other, name }) => (
                    <Item
                      key={other}
                      icon={ArrowRight}
                      value={`${other} ${name}`}
                      onSelect={run(() => navigate({ to: '/$orgId', params: { orgId: other } }))}
                    >
                      {name}
                    </Item>
                  ))}
              </Command.Group>
              {opened === null && isEventId(id) && (
                <Item icon={Zap} value={id} onSelect={run(() => navigate(eventById(orgId, id)))}>
                  Open the event with the id {id}
                </Item>
              )}
            </Command.List>
          </Command>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}

const eventById = (orgId: string, eventId: string): NavigateOptions => ({
  to: '/$orgId/events/$eventId',
  params: { orgId, eventId },
})

/** Where the record with this id is shown. Lists hold only the newest records, and an id reaches all. */
function recordById(orgId: string, id: string): { what: string; target: NavigateOptions } | null {
  const kind = /^([a-z]+)_[0-9a-z]{20,}$/.exec(id)?.[1]
  if (kind === 'evt') return { what: 'event', target: eventById(orgId, id) }
  if (kind === 'dlv')
    return { what: 'attempt', target: { to: '/$orgId/deliveries', params: { orgId }, search: { delivery: id } } }
  if (kind === 'wh')
    return { what: 'webhook', target: { to: '/$orgId/webhooks/$webhookId', params: { orgId, webhookId: id } } }
  if (kind === 'db')
    return { what: 'database', target: { to: '/$orgId/databases/$databaseId', params: { orgId, databaseId: id } } }
  if (kind === 'inv')
    return { what: 'invoice', target: { to: '/$orgId/invoices/$invoiceId', params: { orgId, invoiceId: id } } }
  return null
}

/** An event may have an id that its publisher chose. */
const isEventId = (text: string): boolean => /^[A-Za-z0-9][\w:-]{2,127}$/.test(text)

/** Every word occurs. The default also finds letters that are far apart, and so nearly everything by its id. */
const matches = (value: string, search: string): number =>
  search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => value.toLowerCase().includes(word))
    ? 1
    : 0

function Item({
  icon: Icon,
  value,
  onSelect,
  children,
}: {
  icon: LucideIcon
  value: string
  onSelect: () => void
  children: React.ReactNode
}) {
  return (
    <Command.Item value={value} onSelect={onSelect}>
      <Icon size={15} aria-hidden="true" />
      <span className="truncate">{children}</span>
    </Command.Item>
  )
}

function useRecords(organization: CurrentOrganization) {
  const options = { organization: organization.id }
  const webhooks = useQuery({
    queryKey: [organization.id, 'palette', 'webhooks'],
    queryFn: () => client.webhooks.list(options).page(),
    enabled: organization.can('webhooks:read'),
  })
  const databases = useQuery({
    queryKey: [organization.id, 'palette', 'databases'],
    queryFn: () => client.databases.list(options).page(),
    enabled: organization.can('databases:read'),
  })
  return { webhooks: webhooks.data?.items ?? [], databases: databases.data?.items ?? [] }
}
