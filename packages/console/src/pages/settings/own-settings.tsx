import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { queryClient } from '../../api/client.ts'
import { useSession } from '../../api/organization.ts'
import { signOut } from '../../api/session.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { IdChip } from '../../components/copy.tsx'
import { setTheme, type Theme, useTheme } from '../../theme.ts'

const themes: Record<Theme, string> = { system: 'System', light: 'Light', dark: 'Dark' }

/** What is of the person, in every organization. */
export function OwnSettings() {
  const { user } = useSession()
  const theme = useTheme()
  const [isLeaving, setLeaving] = useState(false)
  return (
    <section className="card" aria-label="You">
      <div className="card-header">
        <h2>You</h2>
      </div>
      <dl className="facts facts-aligned card-body">
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
              <button key={name} type="button" aria-pressed={theme === name} onClick={() => setTheme(name as Theme)}>
                {label}
              </button>
            ))}
          </fieldset>
        </dd>
        <dt>Sessions</dt>
        <dd className="row row-wrap">
          <Link to="/account" className="button button-small">
            Passkeys and sessions
          </Link>
          <Button small onClick={() => setLeaving(true)}>
            Sign out everywhere
          </Button>
        </dd>
      </dl>
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
    </section>
  )
}
