import type { CreatedWebhook as Created } from '@keyhook/client'
import { Link } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { useMember } from '../../api/organization.ts'
import { Snippets } from '../../components/code.tsx'
import { CopyButton } from '../../components/copy.tsx'
import { Notice } from '../../components/notice.tsx'
import { PageHeader } from '../../components/page.tsx'
import { Secret } from '../../components/secret.tsx'
import { Select } from '../../components/select.tsx'
import { TestEvent } from './test-event.tsx'
import { verificationSnippets } from './verification-snippets.ts'

type Props = { webhook: Created; unsaved: string | null }

/** The way from the secret, which is shown here and never again, to the first delivery. */
export function CreatedWebhook({ webhook, unsaved }: Props) {
  const organization = useMember()
  const [type, setType] = useState<string>(webhook.event_types[0]!)
  const types = Object.fromEntries(webhook.event_types.map((name) => [name, name]))
  // It takes the place of a form that is longer than a phone.
  // Braces: newer browsers return a promise, which is no clean-up.
  useEffect(() => {
    window.scrollTo(0, 0)
  }, [])
  const params = { orgId: organization.id, webhookId: webhook.id }
  return (
    <>
      <PageHeader
        title="Webhook created"
        description={webhook.url}
        crumbs={
          <Link to="/$orgId/webhooks" params={params}>
            Webhooks
          </Link>
        }
      />
      <div className="stack">
        {unsaved !== null && (
          <Notice kind="danger">The webhook has no description and no rate limit: {unsaved} Edit it later.</Notice>
        )}
        <section className="card card-body stack" aria-label="Secret">
          <h2>1. Store the secret</h2>
          <p className="muted">
            Your endpoint uses this secret to check that a delivery is from us and was not changed.
          </p>
          <Notice kind="warning">Copy the secret now. It will not be shown again.</Notice>
          <Secret label="Signing secret" text={webhook.secret} />
          <div>
            <CopyButton text={webhook.secret} label="Copy secret" primary />
          </div>
        </section>
        <section className="card card-body stack" aria-label="Verification">
          <h2>2. Check deliveries with it</h2>
          <Snippets snippets={verificationSnippets} label="Language" />
        </section>
        {organization.can('deliveries:send') && (
          <section className="card card-body stack" aria-label="Test">
            <h2>3. Send a test event</h2>
            <p className="muted">A sample is sent to this webhook alone, signed and retried like any other event.</p>
            <Select label="Event type" options={types} value={type} onChange={setType} />
            <TestEvent
              organization={organization.id}
              webhookId={webhook.id}
              type={type}
              accepted="Your endpoint accepted the test event."
            />
          </section>
        )}
        <div>
          <Link to="/$orgId/webhooks/$webhookId" params={params} className="button" replace>
            Go to the webhook
          </Link>
        </div>
      </div>
    </>
  )
}
