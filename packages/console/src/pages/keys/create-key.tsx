import type { CreatedApiKey } from '@keyhook/client'
import { useState } from 'react'
import { useForm } from 'react-hook-form'
import { serverUrl } from '../../address.ts'
import { client, queryClient } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Code } from '../../components/code.tsx'
import { CopyButton } from '../../components/copy.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Field } from '../../components/field.tsx'
import { Notice } from '../../components/notice.tsx'
import { Secret } from '../../components/secret.tsx'
import { explain, fieldErrors } from '../../words/errors.ts'

type Props = { organization: string; onClose: () => void }

/** First the name, then the key: it is shown here and never again. */
export function CreateKey({ organization, onClose }: Props) {
  const [created, setCreated] = useState<CreatedApiKey | null>(null)
  const form = useForm({ defaultValues: { name: '' } })
  const submit = form.handleSubmit(async (values) => {
    try {
      setCreated(await client.keys.create({ name: values.name.trim() }, { organization }))
      await queryClient.invalidateQueries({ queryKey: [organization, 'keys'] })
    } catch (error) {
      const name = fieldErrors(error).get('name')
      form.setError(name === undefined ? 'root' : 'name', { message: name ?? explain(error) })
    }
  })
  if (created !== null) return <CreatedKey created={created} onClose={onClose} />
  const { errors, isSubmitting } = form.formState
  return (
    <Dialog
      title="Create API key"
      description="The key acts as you in this organization, with the role that you have at the time of each call."
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="create-key" look="primary" busy={isSubmitting}>
            Create key
          </Button>
        </>
      }
    >
      <form id="create-key" onSubmit={submit} className="stack" noValidate>
        <Field label="Name" hint="Where the key is used, such as “deploy pipeline”." error={errors.name?.message}>
          {(attributes) => (
            <input
              {...attributes}
              className="input"
              autoComplete="off"
              {...form.register('name', { validate: (name) => name.trim() !== '' || 'Give the key a name.' })}
            />
          )}
        </Field>
        {errors.root?.message && <Notice kind="danger">{errors.root.message}</Notice>}
      </form>
    </Dialog>
  )
}

function CreatedKey({ created, onClose }: { created: CreatedApiKey; onClose: () => void }) {
  const curl = `curl -H "Authorization: Bearer ${created.api_key}" \\\n  ${serverUrl}/api/v1/organizations`
  return (
    <Dialog
      title={`Key “${created.name}” is ready`}
      onClose={onClose}
      wide
      keepOpen
      footer={
        <>
          <CopyButton text={created.api_key} label="Copy key" primary />
          <Button onClick={onClose}>Done</Button>
        </>
      }
    >
      <Notice kind="warning">Copy the key now. It will not be shown again, and nobody can look it up.</Notice>
      <Secret label="API key" text={created.api_key} />
      <div className="stack-small">
        <h3>Try it</h3>
        <Code text={curl} label="Copy the command" wrap />
      </div>
    </Dialog>
  )
}
