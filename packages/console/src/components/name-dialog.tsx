import { useForm } from 'react-hook-form'
import { TextField } from './field.tsx'
import { FormDialog } from './form-dialog.tsx'

type Props = {
  title: string
  description: string
  action: string
  name?: string
  /** What gets the name. */
  what: string
  hint?: string
  onSubmit: (name: string) => Promise<void>
  onClose: () => void
}

/** Asks for the name of something. */
export function NameDialog({ name = '', what, hint = 'A label for people.', onSubmit, ...dialog }: Props) {
  const form = useForm({ defaultValues: { name } })
  return (
    <FormDialog {...dialog} form={form} onSubmit={(values) => onSubmit(values.name.trim())}>
      <TextField
        label="Name"
        hint={hint}
        error={form.formState.errors.name?.message}
        {...form.register('name', { validate: (text) => text.trim() !== '' || `Give the ${what} a name.` })}
      />
    </FormDialog>
  )
}
