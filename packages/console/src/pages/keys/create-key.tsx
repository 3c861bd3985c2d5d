import type { CreatedApiKey } from '@keyhook/client'
import { useState } from 'react'
import { serverUrl } from '../../address.ts'
import { client, queryClient } from '../../api/client.ts'
import { Code } from '../../components/code.tsx'
import { NameDialog } from '../../components/name-dialog.tsx'
import { Secret } from '../../components/secret.tsx'
import { ShownOnce } from '../../components/shown-once.tsx'

type Props = { organization: string; onClose: () => void }

/** First the name, then the key: it is shown here and never again. */
export function CreateKey({ organization, onClose }: Props) {
  const [created, setCreated] = useState<CreatedApiKey | null>(null)
  if (created !== null) return <CreatedKey created={created} onClose={onClose} />
  return (
    <NameDialog
      title="Create API key"
      description="The key acts as you in this organization, with the role that you have at the time of each call."
      action="Create key"
      what="key"
      hint="Where the key is used, such as “deploy pipeline”."
      onSubmit={async (name) => {
        setCreated(await client.keys.create({ name }, { organization }))
        await queryClient.invalidateQueries({ queryKey: [organization, 'keys'] })
      }}
      onClose={onClose}
    />
  )
}

function CreatedKey({ created, onClose }: { created: CreatedApiKey; onClose: () => void }) {
  const curl = `curl -H "Authorization: Bearer ${created.api_key}" \\\n  ${serverUrl}/api/v1/organizations`
  return (
    <ShownOnce
      title={`Key “${created.name}” is ready`}
      warning="Copy the key now. It will not be shown again, and nobody can look it up."
      copy={{ text: created.api_key, label: 'Copy key' }}
      onClose={onClose}
    >
      <Secret label="API key" text={created.api_key} />
      <div className="stack-small">
        <h3>Try it</h3>
        <Code text={curl} label="Copy the command" wrap />
      </div>
    </ShownOnce>
  )
}
