import type { Backup, Database, Restore } from '@keyhook/client'
import { Badge } from '../../components/badge.tsx'

/** Its status. At its storage limit a database is available, but does not take everything. */
export function DatabaseStatus({ database: { status, storage } }: { database: Pick<Database, 'status' | 'storage'> }) {
  if (status === 'failed') return <Badge tone="danger">Failed</Badge>
  if (status === 'unreachable') return <Badge tone="danger">Unreachable</Badge>
  if (status === 'available') {
    if (storage?.state === 'stopped') return <Badge tone="danger">Stopped</Badge>
    if (storage?.state === 'read_only') return <Badge tone="warning">Read-only</Badge>
    return <Badge tone="success">Available</Badge>
  }
  return (
    <Badge tone="info" busy>
      {status === 'provisioning' ? 'Creating' : 'Deleting'}
    </Badge>
  )
}

export function JobStatus({ status }: { status: Backup['status'] | Restore['status'] }) {
  if (status === 'completed') return <Badge tone="success">Completed</Badge>
  if (status === 'failed') return <Badge tone="danger">Failed</Badge>
  return (
    <Badge tone="info" busy>
      {status === 'deleting' ? 'Deleting' : 'Running'}
    </Badge>
  )
}
