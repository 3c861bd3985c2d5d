import type { CustomEventType } from '../../domain/event-types.ts'
import { mapSchemas } from '../../domain/subschemas.ts'
import type { Json } from '../basis.ts'

/** `order.shipped` becomes `OrderShipped`. */
export const inPascalCase = (name: string): string =>
  name.replace(/(?:^|\.)(\w)/g, (_, letter: string) => letter.toUpperCase())

/** The component that holds the schema of a declared type's data. */
export const dataComponent = (name: string): string => `${inPascalCase(name)}Data`

/** The schemas that the operator wrote, as components. References within them have to start at the document. */
export const dataSchemas = (custom: readonly CustomEventType[]): Record<string, Json> =>
  Object.fromEntries(
    custom.map(({ name, schema }) => {
      const { $schema, ...own } = JSON.parse(schema) as Json
      const component = dataComponent(name)
      const moved = mapSchemas(own, (one) =>
        typeof one.$ref === 'string' ? { ...one, $ref: `#/components/schemas/${component}${one.$ref.slice(1)}` } : one,
      )
      return [component, moved as Json]
    }),
  )
