import type { AuditEntry } from '@keyhook/client'
import { Button } from '../../components/button.tsx'
import { Json } from '../../components/code.tsx'
import { IdChip } from '../../components/copy.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { exactText } from '../../components/time.tsx'
import { actorOf } from './audit-sentences.ts'
import { actionText } from './audit-words.ts'

const credentialNames = { key: 'API key', login: 'Login token', operator: 'Operator token' }

/** The ids and the address of an entry, and all of it as JSON. */
export function AuditDetails({ entry, onClose }: { entry: AuditEntry; onClose: () => void }) {
  const { actor } = entry
  return (
    <Dialog
      title={actionText(entry.action)}
      description={exactText(entry.at)}
      wide
      onClose={onClose}
      footer={<Button onClick={onClose}>Close</Button>}
    >
      <dl className="facts">
        <dt>By</dt>
        <dd className="break">
          {actorOf(entry)} {actor.user_id !== null && <IdChip id={actor.user_id} />}
        </dd>
        {actor.credential !== null && (
          <>
            <dt>{credentialNames[actor.kind]}</dt>
            <dd className="break">
              {actor.key_name} <IdChip id={actor.credential} />
            </dd>
          </>
        )}
        <dt>From the address</dt>
        <dd className="mono">{actor.address ?? 'Not known'}</dd>
        <dt>Target</dt>
        <dd className="break">
          {entry.target_name} <IdChip id={entry.target_id} />
        </dd>
      </dl>
      <Json text={JSON.stringify(entry)} label="Copy the entry" />
    </Dialog>
  )
}
