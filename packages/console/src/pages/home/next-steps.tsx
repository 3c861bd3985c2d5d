import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check, Database, KeyRound, Webhook } from 'lucide-react'
import { client } from '../../api/client.ts'
import { databasesQuery } from '../../api/database-queries.ts'
import type { CurrentOrganization } from '../../api/organization.ts'
import { webhooksQuery } from '../../api/webhook-queries.ts'

/** What to do in a new organization; gone when all of it is done. */
export function NextSteps({ organization }: { organization: CurrentOrganization }) {
  const orgId = organization.id
  const webhooks = useQuery(webhooksQuery(orgId)).data
  const databases = useQuery(databasesQuery(orgId)).data
  const keys = useQuery({
    queryKey: [orgId, 'keys', 'any'],
    queryFn: ({ signal }) => client.keys.list({ organization: orgId, limit: 1, signal }).page(),
  }).data?.items
  // Nothing moves below it while the answers arrive.
  if (webhooks === undefined || databases === undefined || keys === undefined) return null
  const steps = [
    {
      isDone: databases.length > 0,
      isOffered: organization.can('databases:create'),
      icon: Database,
      title: 'Create a database',
      text: 'PostgreSQL, ready in seconds, with backups.',
      link: (
        <Link to="/$orgId/databases" params={{ orgId }} hash="create" className="button button-small">
          Create database
        </Link>
      ),
    },
    {
      isDone: webhooks.length > 0,
      isOffered: organization.can('webhooks:create'),
      icon: Webhook,
      title: 'Add a webhook',
      text: 'Your endpoint is told when something happens.',
      link: (
        <Link to="/$orgId/webhooks/new" params={{ orgId }} className="button button-small">
          Create webhook
        </Link>
      ),
    },
    {
      isDone: keys.length > 0,
      isOffered: organization.can('keys:create'),
      icon: KeyRound,
      title: 'Create an API key',
      text: 'For scripts, pipelines and services.',
      link: (
        <Link to="/$orgId/keys" params={{ orgId }} hash="create" className="button button-small">
          Create key
        </Link>
      ),
    },
  ].filter(({ isOffered }) => isOffered)
  if (steps.every(({ isDone }) => isDone)) return null
  return (
    <section className="card" aria-label="Next steps">
      <div className="card-header">
        <h2>Next steps</h2>
      </div>
      <ol className="steps">
        {steps.map(({ isDone, icon: Icon, title, text, link }) => (
          <li key={title}>
            {isDone ? (
              <Check size={18} className="done-icon" aria-label="Done" />
            ) : (
              <Icon size={18} aria-hidden="true" />
            )}
            <div className="grow">
              <div className={isDone ? 'muted' : 'cell-title'}>{title}</div>
              <p className="small muted">{text}</p>
            </div>
            {!isDone && link}
          </li>
        ))}
      </ol>
    </section>
  )
}
