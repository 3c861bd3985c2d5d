import type { Backup, Database, Restore } from '@keyhook/client'
import { Badge } from '../../components/badge.tsx'

export function DatabaseStatus({ status }: { status: Database['status'] }) {
  if (status === 'available') return <Badge tone="success">Available</Badge>
  if (status === 'failed') return <Badge tone="danger">Failed</Badge>
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
