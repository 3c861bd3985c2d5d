import { useForm } from 'react-hook-form'
import { explain, fieldErrors } from '../words/errors.ts'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Field } from './field.tsx'
import { Notice } from './notice.tsx'

type Props = {
  title: string
  description: string
  action: string
  name?: string
  /** What gets the name. */
  what?: string
  onSubmit: (name: string) => Promise<void>
  onClose: () => void
}

/** Asks for the name of something new. */
export function NameDialog({ title, description, action, name = '', what = 'database', onSubmit, onClose }: Props) {
  const form = useForm({ defaultValues: { name } })
  const submit = form.handleSubmit(async (values) => {
    try {
      await onSubmit(values.name.trim())
    } catch (error) {
      const message = fieldErrors(error).get('name')
      form.setError(message === undefined ? 'root' : 'name', { message: message ?? explain(error) })
    }
  })
  const { errors, isSubmitting } = form.formState
  return (
    <Dialog
      title={title}
      description={description}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="name-database" look="primary" busy={isSubmitting}>
            {action}
          </Button>
        </>
      }
    >
      <form id="name-database" onSubmit={submit} className="stack" noValidate>
        <Field label="Name" hint="A label for people." error={errors.name?.message}>
          {(attributes) => (
            <input
              {...attributes}
              className="input"
              autoComplete="off"
              {...form.register('name', { validate: (text) => text.trim() !== '' || `Give the ${what} a name.` })}
            />
          )}
        </Field>
        {errors.root?.message && <Notice kind="danger">{errors.root.message}</Notice>}
      </form>
    </Dialog>
  )
}
