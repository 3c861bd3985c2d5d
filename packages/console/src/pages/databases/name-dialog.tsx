import { useForm } from 'react-hook-form'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Field } from '../../components/field.tsx'
import { Notice } from '../../components/notice.tsx'
import { explain, fieldErrors } from '../../words/errors.ts'

type Props = {
  title: string
  description: string
  action: string
  name?: string
  onSubmit: (name: string) => Promise<void>
  onClose: () => void
}

/** Asks for the name of a new database. */
export function NameDialog({ title, description, action, name = '', onSubmit, onClose }: Props) {
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
        <Field label="Name" hint="A label for people, such as “orders”." error={errors.name?.message}>
          {(attributes) => (
            <input
              {...attributes}
              className="input"
              autoComplete="off"
              {...form.register('name', { validate: (text) => text.trim() !== '' || 'Give the database a name.' })}
            />
          )}
        </Field>
        {errors.root?.message && <Notice kind="danger">{errors.root.message}</Notice>}
      </form>
    </Dialog>
  )
}
