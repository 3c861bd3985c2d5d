import type { OperatorToken } from '@keyhook/client/operator'
import { KeySquare } from 'lucide-react'
import { useState } from 'react'
import { queryClient } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { operatorClient } from '../../api/operator.ts'
import { Badge } from '../../components/badge.tsx'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'

const queryKey = ['operator', 'tokens']

export function TokensPage() {
  const tokens = useList(queryKey, (options) => operatorClient.tokens.list(options))
  const [revoking, setRevoking] = useState<OperatorToken | null>(null)
  const columns: Column<OperatorToken>[] = [
    { label: 'Name', cell: (token) => <span className="cell-title break">{token.name ?? 'Without a name'}</span> },
    { label: 'Id', cell: (token) => <IdChip id={token.id} short /> },
    { label: 'Created', cell: (token) => <RelativeTime at={token.created_at} /> },
    {
      label: 'Ends',
      cell: (token) => (token.revoked_at === null ? <RelativeTime at={token.expires_at} /> : <Badge>Revoked</Badge>),
    },
    {
      label: 'Actions',
      quiet: true,
      className: 'cell-end cell-actions',
      cell: (token) =>
        token.revoked_at === null && (
          <Button small onClick={() => setRevoking(token)} aria-label={`Revoke ${token.name ?? token.id}`}>
            Revoke
          </Button>
        ),
    },
  ]
  return (
    <>
      <PageHeader
        title="Operator tokens"
        description="For your own programs, such as a gateway. Whoever has such a token may do everything that the operator may."
      />
      <section className="card" aria-label="Operator tokens">
        <DataTable
          {...tokens}
          label="Operator tokens"
          columns={columns}
          rowKey={({ id }) => id}
          empty={
            <EmptyState icon={KeySquare} title="No operator tokens">
              A gateway or another program of yours gets one with “keyhook token issue --operator”.
            </EmptyState>
          }
        />
      </section>
      {revoking && (
        <Confirm
          title={`Revoke “${revoking.name ?? revoking.id}”?`}
          description="The next request with this token is refused."
          action="Revoke token"
          onConfirm={async () => {
            await operatorClient.tokens.revoke(revoking.id)
            await queryClient.invalidateQueries({ queryKey })
          }}
          onClose={() => setRevoking(null)}
        />
      )}
    </>
  )
}
