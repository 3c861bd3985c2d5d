import Type, { type TObjectOptions, type TProperties } from 'typebox'
import { type IdPrefix, idPattern } from '../lib/ids.ts'
import { type Basis, choice } from './basis.ts'

/** The same in all examples, so that they match. */
export const exampleId = (prefix: IdPrefix): string => `${prefix}_01m7n2bk5vfamv24tpe8shekmc`
export const exampleTime = '2026-01-31T12:00:00.000Z'

/** An object without other fields. */
export const closed = <Fields extends TProperties>(fields: Fields, options: TObjectOptions = {}) =>
  Type.Object(fields, { additionalProperties: false, ...options })

/** The same with a name in the OpenAPI document. */
export const component = <F extends TProperties>(name: string, basis: Basis, fields: F, options?: TObjectOptions) =>
  closed(fields, { $id: name, ...basis, ...options })

/** Schemas that several records share. */
export const id = (prefix: IdPrefix, description: string) =>
  Type.String({
    pattern: idPattern(prefix),
    description,
    examples: [exampleId(prefix)],
    'x-chosen': [choice(72, `A TypeID that starts with \`${prefix}_\`.`)],
  })

/** A name in a request. */
export const label = (description: string, example: string) =>
  Type.String({
    examples: [example],
    minLength: 1,
    maxLength: 255,
    format: 'label',
    description,
    'x-chosen': [
      choice(27, '1 to 255 characters.'),
      choice(75, 'Not blank, no control characters; kept as it was sent; need not be unique.'),
    ],
  })

export const timestamp = (description: string) =>
  Type.String({ format: 'date-time', description, 'x-chosen': [choice(73, 'RFC 3339, in UTC.')] })

export const createdAt = () => timestamp('When it was made.')

export const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) =>
  Type.Union([schema, Type.Null()])

/** Of a user, wherever one is shown. */
export const verified = () =>
  Type.Boolean({
    description:
      'Whether the address was confirmed: by the operator, by a login at the OpenID issuer, or by a link that was mailed there. A user who joined with an invitation link belongs to that organization only until then.',
  })

export const isService = () =>
  Type.Boolean({ description: 'Whether it is a service member, which no person can log in as.' })
