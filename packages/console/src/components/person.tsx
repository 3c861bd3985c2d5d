import { useSession } from '../api/organization.ts'
import { IdChip } from './copy.tsx'

/** A user: "You", or the id to copy. */
export function PersonName({ id }: { id: string }) {
  const { user } = useSession()
  return id === user?.id ? <span title={id}>You</span> : <IdChip id={id} short />
}
