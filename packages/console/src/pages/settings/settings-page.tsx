import { useState } from 'react'
import { serverUrl } from '../../address.ts'
import { queryClient } from '../../api/client.ts'
import { useMember, useSession } from '../../api/organization.ts'
import { signOut } from '../../api/session.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { IdChip } from '../../components/copy.tsx'
import { PageHeader } from '../../components/page.tsx'
import { setTheme, type Theme, useTheme } from '../../theme.ts'
import { roleNames } from '../members/roles.ts'
import { KeyLifetime } from './key-lifetime.tsx'
import { RenameOrganization } from './rename.tsx'
import { WebhookSuspension } from './webhook-suspension.tsx'

const themes: Record<Theme, string> = { system: 'System', light: 'Light', dark: 'Dark' }

export function SettingsPage() {
  const organization = useMember()
  const { user } = useSession()
  const theme = useTheme()
  const [isLeaving, setLeaving] = useState(false)
  const [isRenaming, setRenaming] = useState(false)
  return (
    <>
      <PageHeader title="Settings" />
      <div className="stack">
        <section className="card" aria-label="Organization">
          <div className="card-header">
            <h2>Organization</h2>
            {organization.can('organizations:update') && (
              <Button small onClick={() => setRenaming(true)}>
                Rename
              </Button>
            )}
          </div>
          <dl className="facts card-body">
            <dt>Name</dt>
            <dd>{organization.name}</dd>
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
            <dt>Reference</dt>
            <dd>
              <a href={`${serverUrl}/docs`}>{serverUrl}/docs</a>
            </dd>
          </dl>
        </section>
        <section className="card" aria-label="You">
          <div className="card-header">
            <h2>You</h2>
          </div>
          <dl className="facts card-body">
            {user && (
              <>
                <dt>Name</dt>
                <dd className="break">{user.name ?? user.email ?? user.id}</dd>
                <dt>User id</dt>
                <dd>
                  <IdChip id={user.id} />
                </dd>
              </>
            )}
            <dt>Theme</dt>
            <dd>
              <fieldset className="segments" aria-label="Theme">
                {Object.entries(themes).map(([name, label]) => (
                  <button
                    key={name}
                    type="button"
                    aria-pressed={theme === name}
                    onClick={() => setTheme(name as Theme)}
                  >
                    {label}
                  </button>
                ))}
              </fieldset>
            </dd>
            <dt>Sessions</dt>
            <dd>
              <Button small onClick={() => setLeaving(true)}>
                Sign out everywhere
              </Button>
            </dd>
          </dl>
        </section>
      </div>
      {isRenaming && <RenameOrganization organization={organization} onClose={() => setRenaming(false)} />}
      {isLeaving && (
        <Confirm
          title="Sign out everywhere?"
          description="Every browser in which you are signed in, this one included, has to sign in again. API keys keep working."
          action="Sign out everywhere"
          onConfirm={async () => {
            await signOut(true)
            await queryClient.resetQueries()
          }}
          onClose={() => setLeaving(false)}
        />
      )}
    </>
  )
}
