import { useQuery } from '@tanstack/react-query'
import { KeySquare } from 'lucide-react'
import { useState } from 'react'
import { queryClient } from '../../api/client.ts'
import { type Passkey, passkeysQuery, removePasskey, renamePasskey } from '../../api/passkeys.ts'
import { fetchSignInWay } from '../../api/session.ts'
import { Badge } from '../../components/badge.tsx'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { NameDialog } from '../../components/name-dialog.tsx'
import { PasskeysMissing, whyMissing } from '../../components/passkeys-missing.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { AddPasskey } from './add-passkey.tsx'

const changed = () => queryClient.invalidateQueries({ queryKey: passkeysQuery.queryKey })

/** Nothing where an OpenID issuer alone decides who signs in. */
export function Passkeys() {
  const way = useQuery({ queryKey: ['sign-in'], queryFn: fetchSignInWay, staleTime: Number.POSITIVE_INFINITY })
  if (!way.data?.passkeys) return null
  return <PasskeyList support={way.data.passkeys} />
}

function PasskeyList({ support }: Parameters<typeof PasskeysMissing>[0]) {
  const passkeys = useQuery(passkeysQuery)
  const [isAdding, setAdding] = useState(false)
  const [renaming, setRenaming] = useState<Passkey | null>(null)
  const [removing, setRemoving] = useState<Passkey | null>(null)
  const isMissing = whyMissing(support) !== null
  const columns: Column<Passkey>[] = [
    {
      label: 'Name',
      cell: ({ name, host }) => (
        <span className="row row-wrap">
          <span className="cell-title break">{name}</span>
          {host !== location.hostname && <Badge>Works at {host}</Badge>}
        </span>
      ),
    },
    { label: 'Added', cell: ({ created_at }) => <RelativeTime at={created_at} /> },
    {
      label: 'Last used',
      cell: ({ last_used_at }) => (last_used_at === null ? 'Never' : <RelativeTime at={last_used_at} />),
    },
    {
      label: 'Actions',
      quiet: true,
      className: 'cell-end cell-actions',
      cell: (passkey) => (
        <span className="row">
          <Button small onClick={() => setRenaming(passkey)} aria-label={`Rename ${passkey.name}`}>
            Rename
          </Button>
          <Button small onClick={() => setRemoving(passkey)} aria-label={`Remove ${passkey.name}`}>
            Remove
          </Button>
        </span>
      ),
    },
  ]
  return (
    <section className="card" aria-label="Passkeys">
      <div className="card-header">
        <h2>Passkeys</h2>
        {!isMissing && (
          <Button small onClick={() => setAdding(true)}>
            Add a passkey
          </Button>
        )}
      </div>
      {isMissing && (
        <div className="card-body">
          <PasskeysMissing support={support} />
        </div>
      )}
      <DataTable
        rows={passkeys.data?.passkeys}
        error={passkeys.error}
        retry={passkeys.refetch}
        label="Passkeys"
        columns={columns}
        rowKey={({ id }) => id}
        empty={
          <EmptyState icon={KeySquare} title="No passkeys yet">
            A passkey signs you in with your fingerprint, your PIN or a security key. If you lose it, the operator gives
            you a link.
          </EmptyState>
        }
      />
      {isAdding && <AddPasskey onClose={() => setAdding(false)} />}
      {renaming && (
        <NameDialog
          title="Rename the passkey"
          description="The name is shown in your account only."
          action="Rename"
          what="passkey"
          name={renaming.name}
          onSubmit={async (name) => {
            await renamePasskey(renaming.id, name)
            await changed()
            setRenaming(null)
          }}
          onClose={() => setRenaming(null)}
        />
      )}
      {removing && (
        <Confirm
          title={`Remove “${removing.name}”?`}
          description="It signs nobody in from now on. Sessions that it has opened stay until you sign them out below. Your device still shows it: delete it there, too."
          action="Remove passkey"
          onConfirm={async () => {
            await removePasskey(removing.id)
            await changed()
          }}
          onClose={() => setRemoving(null)}
        />
      )}
    </section>
  )
}
