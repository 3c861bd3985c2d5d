import type { ErrorObject } from 'ajv'
import type { Database } from '../../db/database.ts'
import { checkData, createSchemaCache } from '../../domain/event-schema.ts'
import { isPublishedType } from '../../domain/event-types.ts'
import type { FieldError } from '../../kernel/faults.ts'
import { findEventTypes } from '../../store/event-types.ts'
import { fieldErrors } from '../decode.ts'

type Event = { type: string; data: object }
/** What is wrong with each event; pointers start at the event. */
type CheckDeclared = (events: readonly Event[]) => Promise<FieldError[][]>

/**
 * Checks the data of events whose types are declared by the schemas that are stored now. Events of the six types have any data,
 * and a batch without others makes no query.
 */
export function createDeclaredCheck(db: Database): CheckDeclared {
  const validatorOf = createSchemaCache()
  return async (events) => {
    const problems: FieldError[][] = events.map(() => [])
    const custom = events.flatMap(({ type }, i) => (isPublishedType(type) ? [] : [{ type, i }]))
    if (custom.length === 0) return problems
    const declared = await findEventTypes(db, [...new Set(custom.map(({ type }) => type))])
    const schemas = new Map(declared.map(({ name, schema }) => [name, schema]))
    const checked = custom.filter(({ type, i }) => {
      if (schemas.has(type)) return true
      problems[i] = [{ pointer: '/type', detail: 'must be an event type that is declared' }]
      return false
    })
    // Numbers that JavaScript would change are objects here, and have to be numbers for the schema.
    const plain = ({ data }: Event): unknown => JSON.parse(JSON.stringify(data))
    const found = checkData(
      checked.map(({ type, i }) => ({ validate: validatorOf(schemas.get(type)!), data: plain(events[i]!) })),
    )
    for (const [n, errors] of found.entries()) {
      problems[checked[n]!.i] = errors.flatMap((error): FieldError[] =>
        'reason' in error ? [{ pointer: '/data', detail: error.reason }] : [],
      )
      const broken = errors.filter((error): error is ErrorObject => !('reason' in error))
      problems[checked[n]!.i]!.push(...fieldErrors(broken, 'body').map(inData))
    }
    return problems
  }
}

const inData = (error: FieldError): FieldError =>
  'pointer' in error ? { ...error, pointer: `/data${error.pointer}` } : error
