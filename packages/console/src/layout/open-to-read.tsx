import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { BookOpen } from 'lucide-react'
import { readOrganization } from '../api/opened-organization.ts'
import { operatorClient } from '../api/operator.ts'
import { Button } from '../components/button.tsx'
import { Notice } from '../components/notice.tsx'
import { EmptyState } from '../components/states.tsx'
import { explain } from '../words/errors.ts'
import { PageFailure, PageLoading } from './fallbacks.tsx'

/** An address of an organization that the operator has not opened, or not since the page was loaded. */
export default function OpenToRead({ id }: { id: string }) {
  const organization = useQuery({
    queryKey: ['operator', 'organizations', id],
    queryFn: ({ signal }) => operatorClient.organizations.get(id, { signal }),
  })
  const open = useMutation({ mutationFn: readOrganization })
  const { data } = organization
  return (
    <main className="center-page">
      {organization.error && (
        <PageFailure error={organization.error} retry={organization.refetch} what="The organization" />
      )}
      {organization.isPending && <PageLoading />}
      {data && (
        <EmptyState
          isPage
          icon={BookOpen}
          title={`Open “${data.name}” to read?`}
          action={
            <>
              <Link to="/operator" className="button">
                Back to the overview
              </Link>
              <Button look="primary" busy={open.isPending} onClick={() => open.mutate(data)}>
                Open
              </Button>
            </>
          }
        >
          You can read the pages of the organization and change nothing. The audit log of the organization records that
          the operator opened it.
        </EmptyState>
      )}
      {open.error && <Notice kind="danger">{explain(open.error)}</Notice>}
    </main>
  )
}
