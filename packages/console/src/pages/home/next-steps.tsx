import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check, Database, KeyRound, type LucideIcon, Webhook } from 'lucide-react'
import type { ReactNode } from 'react'
import { client } from '../../api/client.ts'
import { databasesQuery } from '../../api/database-queries.ts'
import type { CurrentOrganization } from '../../api/organization.ts'
import { webhooksQuery } from '../../api/webhook-queries.ts'

type Step = { isDone: boolean; icon: LucideIcon; title: string; text: string; link: ReactNode }

/** What to do in a new organization; none when all of it is done, or the answers do not come. */
export function useNextSteps(organization: CurrentOrganization): Step[] | 'loading' {
  const orgId = organization.id
  const webhooks = useQuery(webhooksQuery(orgId))
  const databases = useQuery(databasesQuery(orgId))
  const keys = useQuery({
    queryKey: [orgId, 'keys', 'any'],
    queryFn: ({ signal }) => client.keys.list({ organization: orgId, limit: 1, signal }).page(),
  })
  if (webhooks.isError || databases.isError || keys.isError) return []
  if (!webhooks.data || !databases.data || !keys.data) return 'loading'
  const steps = [
    {
      isDone: databases.data.length > 0,
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
      isDone: webhooks.data.length > 0,
      isOffered: organization.can('webhooks:create'),
      icon: Webhook,
      title: 'Add a webhook',
      text: 'Your endpoint gets an event when something happens.',
      link: (
        <Link to="/$orgId/webhooks/new" params={{ orgId }} className="button button-small">
          Create webhook
        </Link>
      ),
    },
    {
      isDone: keys.data.items.length > 0,
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
  return steps.every(({ isDone }) => isDone) ? [] : steps
}

export function NextSteps({ steps }: { steps: readonly Step[] }) {
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
