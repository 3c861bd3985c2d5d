import type { ApiKey } from '@keyhook/client'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { refreshKeys } from '../../api/key-queries.ts'
import { Confirm } from '../../components/confirm.tsx'
import { showToast } from '../../components/toasts.tsx'

type Props = { organization: string; apiKey: ApiKey; onClose: () => void }

export function RevokeKey({ organization, apiKey, onClose }: Props) {
  const [withDescendants, setWithDescendants] = useState(false)
  const revoke = async () => {
    const count = withDescendants
      ? (await client.keys.revokeWithDescendants(apiKey.id, { organization })).revoked.length
      : await client.keys.revoke(apiKey.id, { organization }).then(() => 1)
    await refreshKeys(organization)
    showToast({ title: count === 1 ? `“${apiKey.name}” is revoked` : `${count} keys are revoked` })
  }
  return (
    <Confirm
      title={`Revoke “${apiKey.name}”?`}
      description={
        <>
          Calls with <span className="mono">{apiKey.key_prefix}…</span> are refused from now on. This cannot be undone.
        </>
      }
      action="Revoke key"
      onConfirm={revoke}
      onClose={onClose}
    >
      <label className="check">
        <input
          type="checkbox"
          checked={withDescendants}
          onChange={(event) => setWithDescendants(event.target.checked)}
        />
        <span>
          Also revoke every key that was created with this key
          <br />
          <span className="muted small">
            Choose this if the key has leaked: whoever has it may have created more keys with it.
          </span>
        </span>
      </label>
    </Confirm>
  )
}
