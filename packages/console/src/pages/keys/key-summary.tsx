import type { KeyRestrictions } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { databasesQuery } from '../../api/database-queries.ts'
import { useMember } from '../../api/organization.ts'
import { Notice } from '../../components/notice.tsx'
import { keySentence } from './key-sentence.ts'

/** What a key may do, in one sentence. */
export function KeySummary({ restrictions, verb = 'May' }: { restrictions: KeyRestrictions; verb?: 'May' | 'Could' }) {
  const organization = useMember()
  const { data } = useQuery({
    ...databasesQuery(organization.id),
    enabled: restrictions.databases !== null,
    refetchInterval: false,
  })
  const databaseNames = new Map(data?.map(({ id, name }) => [id, name]))
  return <span className="break">{keySentence(restrictions, { databaseNames, verb })}</span>
}

/** Below a form, which can be longer than the window: the sentence stays in view. */
export const KeyPreview = ({ restrictions }: { restrictions: KeyRestrictions }) => (
  <div className="key-preview">
    <Notice>
      <KeySummary restrictions={restrictions} />
    </Notice>
  </div>
)
