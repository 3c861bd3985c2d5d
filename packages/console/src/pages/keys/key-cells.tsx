import type { ApiKeyDetails } from '@keyhook/client'
import { Badge } from '../../components/badge.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { countText } from '../../words/numbers.ts'
import { KeySummary } from './key-summary.tsx'

type Props = { apiKey: ApiKeyDetails }

export function KeyName({ apiKey }: Props) {
  return (
    <div className="stack-small">
      <span className="cell-title break">{apiKey.name}</span>
      <span className="mono muted">{apiKey.key_prefix}…</span>
      {apiKey.leaked_at !== null ? (
        <Leak at={apiKey.leaked_at} url={apiKey.leaked_url} />
      ) : (
        apiKey.status === 'revoked' && <Badge>{apiKey.expired ? 'Expired' : 'Revoked'}</Badge>
      )}
      {apiKey.creator_left && apiKey.status === 'active' && <Badge tone="warning">Creator has left</Badge>}
    </div>
  )
}

/** The reporter's text is shown as a text, not as a link: it may be anything. */
const Leak = ({ at, url }: { at: string; url: string | null }) => (
  <>
    <Badge tone="danger">Leaked, revoked</Badge>
    <span className="small muted break">
      Reported <RelativeTime at={at} />
      {url !== null && <>, found at {url}</>}
    </span>
  </>
)

/** What it may do, and the requests that its networks have refused. */
export function KeyPermissions({ apiKey }: Props) {
  const { count, last_at: at, last_address: address } = apiKey.refused
  return (
    <div className="key-summary small">
      <KeySummary restrictions={apiKey} verb={apiKey.status === 'active' ? 'May' : 'Could'} />
      {count > 0 && at !== null && (
        <div className="key-refused">
          {count === 1 ? '1 request refused, ' : `${countText(count)} requests refused, last `}
          from <span className="mono">{address}</span>, <RelativeTime at={at} />
        </div>
      )}
    </div>
  )
}

const unusedDaysMin = 90

export function KeyUse({ apiKey }: Props) {
  const { status, last_used_at: usedAt, created_at: createdAt } = apiKey
  const days = Math.floor((Date.now() - Date.parse(usedAt ?? createdAt)) / 86_400_000)
  if (status === 'active' && days >= unusedDaysMin)
    return <Badge tone="warning">Unused for {countText(days)} days</Badge>
  return usedAt === null ? <span className="muted">Never</span> : <RelativeTime at={usedAt} />
}
