import '../../styles/keys.css'
import { useQuery } from '@tanstack/react-query'
import type { UseFormReturn } from 'react-hook-form'
import { databasesQuery } from '../../api/database-queries.ts'
import { useMember } from '../../api/organization.ts'
import { Field, FieldError, TextField } from '../../components/field.tsx'
import { ExpiryField } from './expiry-field.tsx'
import { type KeyForm, networksOf, offeredPermissions, offeredScopes } from './key-form.ts'
import { isNetwork } from './key-sentence.ts'
import { databasePermissions, permissionWords, type Scope } from './permissions.ts'

type Props = {
  form: UseFormReturn<KeyForm>
  /** The longest that a key of the organization may last. */
  daysMax: number | null
  /** The end of the key that is changed. */
  current?: string | null
  /** Whether the key acts as the user of this page. */
  isOwn?: boolean
}

/** The name of a key, and everything that restricts it. */
export function KeyFields({ form, daysMax, current, isOwn = true }: Props) {
  const { errors } = form.formState
  return (
    <>
      <TextField
        label="Name"
        hint="Where the key is used, such as “deploy pipeline”."
        error={errors.name?.message}
        {...form.register('name', { validate: (text) => text.trim() !== '' || 'Give the key a name.' })}
      />
      <ScopeField form={form} isOwn={isOwn} />
      <DatabasesField form={form} />
      <ExpiryField
        daysMax={daysMax}
        current={current}
        error={errors.expires_at?.message}
        registration={form.register('expires_at')}
      />
      <Field
        label="Networks (optional)"
        hint="Addresses or networks such as 203.0.113.0/24, separated by commas or lines. Requests from elsewhere are refused. Leave it empty to allow requests from everywhere."
        error={errors.allowed_networks?.message}
      >
        {(attributes) => (
          <textarea
            {...attributes}
            className="input mono"
            rows={2}
            spellCheck={false}
            {...form.register('allowed_networks', { validate: checkNetworks })}
          />
        )}
      </Field>
    </>
  )
}

function checkNetworks(text: string): true | string {
  const wrong = networksOf(text).find((one) => !isNetwork(one))
  return wrong === undefined || `“${wrong}” is no address and no network such as 203.0.113.0/24.`
}

const scopeTexts: Record<Scope, readonly [title: string, text: string]> = {
  role: ['Everything my role may', 'This includes what your role allows in the future.'],
  read_only: ['Read only', 'The key reads everything that its user may read, and changes nothing.'],
  webhooks: ['Webhooks and deliveries', 'The key manages webhooks, sends events again, and reads events.'],
  databases: ['Databases and backups', 'The key manages databases, backups and restores, and reads events.'],
  choose: ['Choose', 'You choose each permission.'],
}

/** In the form for a key of somebody else, whose role counts. */
const roleOfOther = [
  'Everything the role of its user may',
  'This includes what that role allows in the future.',
] as const

function ScopeField({ form, isOwn }: { form: UseFormReturn<KeyForm>; isOwn: boolean }) {
  const organization = useMember()
  const { scope: initial, permissions = [] } = form.formState.defaultValues ?? {}
  const error = form.formState.errors.permissions?.message
  return (
    <>
      <fieldset className="field">
        <legend>What the key may do</legend>
        <div>
          {offeredScopes(organization, initial ?? 'role').map((scope) => {
            const [title, text] = scope === 'role' && !isOwn ? roleOfOther : scopeTexts[scope]
            return (
              <label key={scope} className="choice">
                <input type="radio" value={scope} {...form.register('scope')} />
                <span>{title}</span>
                <span>{text}</span>
              </label>
            )
          })}
        </div>
      </fieldset>
      {form.watch('scope') === 'choose' && (
        <div className="stack">
          {offeredPermissions(
            organization,
            permissions.filter((one) => one !== undefined),
          ).map((group) => (
            <fieldset key={group.name} className="field">
              <legend>{group.name}</legend>
              <div className="check-grid">
                {group.permissions.map((permission) => (
                  <label key={permission} className="check">
                    <input
                      type="checkbox"
                      value={permission}
                      aria-invalid={error !== undefined}
                      {...form.register('permissions', { validate: checkChosen })}
                    />
                    <span>{labelOf(...permissionWords[permission])}</span>
                  </label>
                ))}
              </div>
            </fieldset>
          ))}
          {error && <FieldError>{error}</FieldError>}
        </div>
      )}
    </>
  )
}

function checkChosen(permissions: string[], { scope, hasDatabases }: KeyForm): true | string {
  if (scope !== 'choose') return true
  if (permissions.length === 0) return 'Choose at least one permission.'
  const hasEffect = !hasDatabases || databasePermissions.some((one) => permissions.includes(one))
  return hasEffect || 'Choose a permission for databases, backups or events: the key is for some databases only.'
}

const labelOf = (verb: string, noun: string): string => `${verb[0]!.toUpperCase()}${verb.slice(1)} ${noun}`

function DatabasesField({ form }: { form: UseFormReturn<KeyForm> }) {
  const organization = useMember()
  const { data = [] } = useQuery(databasesQuery(organization.id))
  // A database of the key can have been deleted.
  const known = form.formState.defaultValues?.databases ?? []
  const deleted = known.filter((id) => id !== undefined && !data.some((one) => one.id === id)) as string[]
  const databases = [...data, ...deleted.map((id) => ({ id, name: id }))]
  if (databases.length === 0) return null
  const error = form.formState.errors.databases?.message
  return (
    <fieldset className="field">
      <legend>Databases</legend>
      {/* In a block of its own: a label right below a field is set as its title. */}
      <div>
        <label className="check">
          <input type="checkbox" {...form.register('hasDatabases')} />
          <span>
            Only some databases
            <br />
            <span className="muted small">
              The key then reaches only these databases, their backups and their events. Its other permissions have no
              effect.
            </span>
          </span>
        </label>
      </div>
      {form.watch('hasDatabases') && (
        <div className="check-grid check-indent">
          {databases.map(({ id, name }) => (
            <label key={id} className="check">
              <input
                type="checkbox"
                value={id}
                aria-invalid={error !== undefined}
                {...form.register('databases', { validate: checkDatabases })}
              />
              <span className="break">{name}</span>
            </label>
          ))}
        </div>
      )}
      {error && <FieldError>{error}</FieldError>}
    </fieldset>
  )
}

const checkDatabases = (databases: string[], { hasDatabases }: KeyForm): true | string =>
  !hasDatabases || databases.length > 0 || 'Choose at least one database.'
