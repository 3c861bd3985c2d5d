import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { queryClient } from '../../api/client.ts'
import { endOtherSessions, endSession, type OwnSession, ownSessionsQuery } from '../../api/own-sessions.ts'
import { signOut } from '../../api/session.ts'
import { Badge } from '../../components/badge.tsx'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { showToast, toastError } from '../../components/toasts.tsx'

const ways = {
  link: 'a link',
  passkey: 'a passkey',
  openid: 'single sign-on',
  mail: 'a link by e-mail',
  invitation: 'an invitation',
}

const changed = () => queryClient.invalidateQueries({ queryKey: ownSessionsQuery.queryKey })

async function end({ id, current, device }: OwnSession): Promise<void> {
  if (current) {
    await signOut(false)
    await queryClient.resetQueries()
    return
  }
  await endSession(id)
  showToast({ title: `${device} was signed out` })
  await changed()
}

/** Every browser in which this person is signed in. */
export function OwnSessions() {
  const sessions = useQuery(ownSessionsQuery)
  const [isLeaving, setLeaving] = useState(false)
  const columns: Column<OwnSession>[] = [
    {
      label: 'Browser',
      cell: ({ device, current }) => (
        <span className="row row-wrap">
          <span className="cell-title">{device}</span>
          {current && <Badge tone="success">This session</Badge>}
        </span>
      ),
    },
    { label: 'Address', cell: ({ address }) => <span className="mono">{address ?? 'Unknown'}</span> },
    {
      label: 'Signed in',
      cell: ({ created_at, way }) => (
        <>
          <RelativeTime at={created_at} /> {way && <span className="muted">with {ways[way]}</span>}
        </>
      ),
    },
    { label: 'Last used', cell: ({ last_used_at }) => <RelativeTime at={last_used_at} /> },
    {
      label: 'Actions',
      quiet: true,
      className: 'cell-end cell-actions',
      cell: (session) => (
        <Button
          small
          aria-label={`Sign out ${session.device}${session.current ? ', this session' : ''}`}
          onClick={() => end(session).catch(toastError('The session is still signed in'))}
        >
          Sign out
        </Button>
      ),
    },
  ]
  return (
    <section className="card" aria-label="Sessions">
      <div className="card-header">
        <h2>Sessions</h2>
        {(sessions.data?.length ?? 0) > 1 && (
          <Button small onClick={() => setLeaving(true)}>
            Sign out all others
          </Button>
        )}
      </div>
      <DataTable
        rows={sessions.data}
        error={sessions.error}
        retry={sessions.refetch}
        label="Sessions"
        columns={columns}
        rowKey={({ id }) => id}
        empty={null}
      />
      {isLeaving && (
        <Confirm
          title="Sign out all others?"
          description="Every other browser has to sign in again, and terminals that were logged in there, too. API keys keep working."
          action="Sign out all others"
          onConfirm={async () => {
            await endOtherSessions()
            await changed()
          }}
          onClose={() => setLeaving(false)}
        />
      )}
    </section>
  )
}
