import '../../styles/audit.css'
import type { AuditEntry } from '@keyhook/client'
import { useSession } from '../../api/organization.ts'
import { RelativeTime } from '../../components/time.tsx'
import { countText } from '../../words/numbers.ts'
import { actorOf, sentenceOf } from './audit-sentences.ts'

/** A line of the list: an entry, one of an opened group, or a group, whose newest entry comes first. */
export type AuditLine = { key: string; entries: readonly [AuditEntry, ...AuditEntry[]]; isInner: boolean }

/** What happened, in a sentence. */
export function AuditSentence({ line: { entries, isInner } }: { line: AuditLine }) {
  const { user } = useSession()
  const [entry] = entries
  const { actor } = entry
  const { before, target, after } = sentenceOf(entry)
  // By name: three backups of one database have that database as their target.
  const others = new Set(entries.map(({ target_id, target_name }) => target_name ?? target_id)).size - 1
  return (
    <div className={isInner ? 'audit-inner' : undefined}>
      <p className="break">
        <strong title={actor.user_id ?? undefined}>
          {actor.user_id !== null && actor.user_id === user?.id ? 'You' : actorOf(entry)}
        </strong>{' '}
        {before}
        {target !== null && <strong>{target}</strong>}
        {/* What comes after the target is of the newest entry alone. */}
        {target !== null && others > 0 ? ` and ${countText(others)} ${others === 1 ? 'other' : 'others'}` : after}
      </p>
      {actor.kind === 'key' && (
        <p className="small muted break">with the API key {actor.key_name ?? actor.credential}</p>
      )}
      {entries.length > 1 && <Times entries={entries} />}
    </div>
  )
}

const minuteMs = 60_000

function Times({ entries }: { entries: AuditLine['entries'] }) {
  const [newest, oldest] = [entries[0], entries.at(-1)!]
  const isShort = Date.parse(newest.at) - Date.parse(oldest.at) < minuteMs
  return (
    <p className="small muted">
      {countText(entries.length)} times{' '}
      {isShort ? (
        'within a minute'
      ) : (
        <>
          from <RelativeTime at={oldest.at} /> to <RelativeTime at={newest.at} />
        </>
      )}
    </p>
  )
}
