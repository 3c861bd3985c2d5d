import type { OpenApi } from '../openapi/openapi.ts'
import type { Json } from '../openapi/openapi-node.ts'
import { choicesOf, escapeHtml, prose, table, tag } from './reference-html.ts'

/** The fields of a record, and of the records inside of it, by names such as `response.status` and `errors[].pointer`. */
export const fieldsOf = (schema: Json, document: OpenApi): string => table(rowsOf(schema, document, ''))

function rowsOf(given: Json, document: OpenApi, prefix: string): string[] {
  const schema = recordOf(given, document)
  const fields = Object.entries((schema.properties as Record<string, Json> | undefined) ?? {})
  const required = (schema.required as string[] | undefined) ?? fields.map(([name]) => name)
  return fields.flatMap(([own, field]) => {
    const name = prefix + own
    const optional = required.includes(own) ? '' : ' <i>optional</i>'
    const about = `${prose(field.description ?? describedInside(field))} ${rulesOf(field)} ${tag(field)}`
    const inside = rowsOf(field, document, `${name}${field.type === 'array' ? '[]' : ''}.`)
    return [
      `<tr><th><code>${escapeHtml(name).replaceAll('.', '.<wbr>')}</code>${optional}</th><td class="type">${typeOf(field)}</td><td>${about}${choicesOf(field)}</td></tr>`,
      ...inside,
    ]
  })
}

/** The record behind a reference, an array, the alternative to null, or to an array of the same. */
function recordOf(schema: Json, document: OpenApi): Json {
  if (typeof schema.$ref === 'string') return document.components.schemas[nameOf(schema)]!
  if (schema.else !== undefined) return recordOf(schema.else as Json, document)
  if (schema.items !== undefined) return recordOf(schema.items as Json, document)
  const [one] = alternatives(schema)
  return one === undefined ? schema : recordOf(one, document)
}

const nameOf = (schema: Json): string => String(schema.$ref).split('/').at(-1)!

const alternatives = (schema: Json): Json[] =>
  ((schema.anyOf as Json[] | undefined) ?? []).filter((one) => one.type !== 'null')

const describedInside = (schema: Json): unknown => alternatives(schema)[0]?.description

export function typeOf(schema: Json): string {
  if (typeof schema.$ref === 'string') return nameOf(schema)
  if (schema.type === 'array') return `array of ${typeOf(schema.items as Json)}`
  if (Array.isArray(schema.anyOf)) return schema.anyOf.map((one) => typeOf(one as Json)).join(' or ')
  return escapeHtml(schema.format === 'date-time' ? 'date-time' : (schema.type ?? (schema.enum ? 'string' : 'any')))
}

export function rulesOf(field: Json): string {
  const values = (field.enum ?? (field.items as Json | undefined)?.enum) as string[] | undefined
  const said = [
    values && `One of ${values.map((value) => `<code>${escapeHtml(value)}</code>`).join(', ')}.`,
    field.maximum && `${field.minimum} to ${field.maximum}.`,
  ]
  return said.filter(Boolean).join(' ')
}
