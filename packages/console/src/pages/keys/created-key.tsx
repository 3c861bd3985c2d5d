import type { CreatedApiKey } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { serverUrl } from '../../address.ts'
import { keyQuery } from '../../api/key-queries.ts'
import { Code } from '../../components/code.tsx'
import { Secret } from '../../components/secret.tsx'
import { ShownOnce } from '../../components/shown-once.tsx'
import { KeySummary } from './key-summary.tsx'

type Props = { title: string; note?: string; organization: string; created: CreatedApiKey; onClose: () => void }

/** A new key, which is shown here and never again, and what it may do. */
export function CreatedKey({ title, note, organization, created, onClose }: Props) {
  const { data: key } = useQuery(keyQuery(organization, created.id))
  const curl = `curl -H "Authorization: Bearer ${created.api_key}" \\\n  ${serverUrl}/api/v1/organizations`
  // Only a key that may read the organization gets another answer than 403.
  const mayTry = key && (key.permissions?.includes('organizations:read') ?? true) && key.allowed_networks === null
  return (
    <ShownOnce
      title={title}
      warning="Copy the key now. It will not be shown again, and nobody can look it up."
      copy={{ text: created.api_key, label: 'Copy key' }}
      onClose={onClose}
    >
      <Secret label="API key" text={created.api_key} />
      {key && (
        <p>
          <KeySummary restrictions={key} />
        </p>
      )}
      {note && <p>{note}</p>}
      {mayTry && (
        <div className="stack-small">
          <h3>Try it</h3>
          <Code text={curl} label="Copy the command" wrap />
        </div>
      )}
    </ShownOnce>
  )
}
