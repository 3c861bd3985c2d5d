import type { ErrorObject, ValidateFunction } from 'ajv'
import Type from 'typebox'
import { createValidatorCompiler, fieldErrors } from '../http/decode.ts'
import type { RecheckBody } from '../http/server.ts'
import { type FieldError, invalid } from '../lib/faults.ts'
import { eventTypes } from './events.ts'

/**
 * Marks a schema of an event type: one that requests may name, or one that a record can show. Schemas list the six; where the
 * operator has declared others, `withEventTypes` adds those.
 */
const eventTypeMark = 'x-event-type'
type Marked = { [eventTypeMark]?: 'accepted' | 'shown' }

const eventType = (mark: 'accepted' | 'shown', description?: string) =>
  Type.Unsafe<string>({
    type: 'string',
    enum: [...eventTypes],
    ...(description !== undefined && { description }),
    [eventTypeMark]: mark,
  })

export const acceptedEventType = (description?: string) => eventType('accepted', description)

/** Also a type that is no longer declared: events and webhooks keep its name. */
export const shownEventType = (description?: string) => eventType('shown', description)

export type CustomNames = { accepted: readonly string[]; shown: readonly string[] }

/** A copy without the marks, whose lists of event types also have these. */
export function withEventTypes(node: unknown, custom: CustomNames): unknown {
  if (Array.isArray(node)) return node.map((item) => withEventTypes(item, custom))
  if (typeof node !== 'object' || node === null) return node
  const { [eventTypeMark]: mark, ...rest } = node as Marked & { [key: string]: unknown }
  if (mark !== undefined) return { ...rest, enum: [...eventTypes, ...custom[mark]] }
  const copy = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, withEventTypes(value, custom)]))
  const { items, maxItems } = rest as { items?: Marked; maxItems?: number }
  const itemMark = items?.[eventTypeMark]
  return itemMark === undefined || maxItems === undefined
    ? copy
    : { ...copy, maxItems: eventTypes.length + custom[itemMark].length }
}

/** Whether declared types could make a difference to this error. */
function isAboutEventTypes({ parentSchema }: ErrorObject): boolean {
  const schema = parentSchema as (Marked & { items?: Marked }) | undefined
  return schema?.[eventTypeMark] !== undefined || schema?.items?.[eventTypeMark] !== undefined
}

/**
 * A body with an event type outside of the six has failed validation. Checks it again with the types that are declared now, and
 * throws what is still wrong. So bodies with the six need no query.
 */
export const createEventTypeCheck =
  (declaredNames: () => Promise<readonly string[]>): RecheckBody =>
  (schema) => {
    if (!hasEventTypes(schema)) return null
    let compiled: { names: string; validate: ValidateFunction } | null = null

    function validatorFor(accepted: readonly string[]): ValidateFunction {
      const names = accepted.join()
      if (compiled?.names !== names) {
        const extended = withEventTypes(schema, { accepted, shown: [] }) as object
        const validate = createValidatorCompiler()({ schema: extended, method: '', url: '', httpPart: 'body' })
        compiled = { names, validate: validate as ValidateFunction }
      }
      return compiled.validate
    }

    return async ({ body, validationError }) => {
      if (validationError === undefined) return
      const errors = validationError.validation as ErrorObject[] | undefined
      if (validationError.validationContext !== 'body' || !errors?.some(isAboutEventTypes)) throw validationError
      const names = await declaredNames()
      if (names.length === 0) throw validationError
      const validate = validatorFor(names)
      if (!validate(body)) throw invalid(fieldErrors(validate.errors!, 'body') as [FieldError, ...FieldError[]])
    }
  }

const hasEventTypes = (schema: unknown): boolean => {
  if (typeof schema !== 'object' || schema === null) return false
  return eventTypeMark in schema || Object.values(schema).some(hasEventTypes)
}
