import { useState } from 'react'
import { serverUrl } from '../../address.ts'
import type { CurrentOrganization } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { IdChip } from '../../components/copy.tsx'
import { roleNames } from '../members/roles.ts'
import { KeyLifetime } from './key-lifetime.tsx'
import { RenameOrganization } from './rename.tsx'
import { WebhookSuspension } from './webhook-suspension.tsx'

export function OrganizationSettings({ organization }: { organization: CurrentOrganization }) {
  const [isRenaming, setRenaming] = useState(false)
  return (
    <section className="card" aria-label="Organization">
      <div className="card-header">
        <h2>Organization</h2>
      </div>
      <dl className="facts facts-aligned card-body">
        <dt>Name</dt>
        <dd className="row row-wrap">
          <span className="break">{organization.name}</span>
          {organization.can('organizations:update') && (
            <Button small onClick={() => setRenaming(true)}>
              Rename
            </Button>
          )}
        </dd>
        <dt>Id</dt>
        <dd>
          <IdChip id={organization.id} />
        </dd>
        <dt>Your role</dt>
        <dd>{organization.role === 'operator' ? 'Operator, reading' : roleNames[organization.role]}</dd>
        <dt>New API keys</dt>
        <dd>
          <KeyLifetime organization={organization} />
        </dd>
        <dt>Failing webhooks</dt>
        <dd>
          <WebhookSuspension organization={organization} />
        </dd>
        <dt>Address of the API</dt>
        <dd>
          <IdChip id={serverUrl} />
        </dd>
        <dt>Reference of the API</dt>
        <dd className="break">
          <a href={`${serverUrl}/docs`}>{serverUrl}/docs</a>
        </dd>
      </dl>
      {isRenaming && <RenameOrganization organization={organization} onClose={() => setRenaming(false)} />}
    </section>
  )
}
