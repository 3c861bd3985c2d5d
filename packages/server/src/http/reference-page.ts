import type { OpenApi } from './openapi.ts'
import { style } from './reference-style.ts'

type Node = Record<string, unknown>

/** The reference as one page of HTML: no scripts, nothing loaded from elsewhere, readable in any browser and on paper. */
export function referencePage(document: OpenApi): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  )
  const contents = operations.map(
    ({ method, path, operation }) =>
      `<li><a href="#${anchor(method, path)}"><span class="verb ${method}">${method}</span> ${escapeHtml(operation.summary)}</a></li>`,
  )
  const sections = operations.map((one) => section(one, document))
  const records = Object.entries(document.components.schemas).map(
    ([name, schema]) => `<section id="schema-${name}"><h2>${name}</h2>${fields(schema)}</section>`,
  )
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Keyhook reference</title><style>${style}</style></head><body>
<nav><h1>Keyhook</h1><ul>${contents.join('')}</ul><h3>Records</h3><ul>${Object.keys(document.components.schemas)
    .map((name) => `<li><a href="#schema-${name}">${name}</a></li>`)
    .join('')}</ul><p><a href="/openapi.json">openapi.json</a></p></nav>
<main><p class="intro">Every call sends <code>Authorization: Bearer &lt;token&gt;</code>, with an API key or a login token.
<span class="basis specified">specified</span> marks what the published interface shows, <span class="basis">chosen&nbsp;n</span> what it leaves open, with the number of our decision.</p>
${sections.join('\n')}<h1>Records</h1>${records.join('\n')}</main></body></html>`
}

function section(
  { method, path, operation }: { method: string; path: string; operation: Node },
  document: OpenApi,
): string {
  const parameters = (operation.parameters as Node[] | undefined) ?? []
  const body = contentSchema(operation.requestBody as Node | undefined)
  return `<section id="${anchor(method, path)}">
<h2><span class="verb ${method}">${method}</span> <code>${escapeHtml(path)}</code> ${basis(operation)}</h2>
<p>${prose(operation.description ?? operation.summary)}</p>
${parameters.length === 0 ? '' : `<h3>Parameters</h3>${table(parameters.map(parameterRow))}`}
${body === null ? '' : `<h3>Request body</h3>${fields(resolve(body, document))}`}
<h3>Answers</h3>${table(Object.entries(operation.responses as Record<string, Node>).map(responseRow))}
</section>`
}

const table = (rows: string[]): string => `<table>${rows.join('')}</table>`

const parameterRow = (parameter: Node): string =>
  `<tr><th><code>${escapeHtml(parameter.name)}</code></th><td>${escapeHtml(parameter.in)}</td><td>${prose(parameter.description)} ${basis(parameter)}</td></tr>`

function responseRow([status, response]: [string, Node]): string {
  const headers = Object.entries((response.headers as Record<string, Node> | undefined) ?? {}).map(
    ([name, header]) => `<br><code>${name}</code> ${prose(header.description)} ${basis(header)}`,
  )
  const schema = contentSchema(response)
  return `<tr><th>${status}</th><td>${schema === null ? '' : type(schema)}</td><td>${prose(response.description)} ${basis(response)}${headers.join('')}</td></tr>`
}

function fields(schema: Node): string {
  const required = new Set((schema.required as string[] | undefined) ?? [])
  const rows = Object.entries((schema.properties as Record<string, Node> | undefined) ?? {}).map(
    ([name, field]) =>
      `<tr><th><code>${escapeHtml(name)}</code>${required.has(name) ? '' : ' <i>optional</i>'}</th><td>${type(field)}</td><td>${prose(field.description)} ${rules(field)} ${basis(field)}${nested(field)}</td></tr>`,
  )
  return table(rows)
}

const nested = (field: Node): string => {
  const inner = (field.items as Node | undefined) ?? field
  return inner.properties === undefined ? '' : fields(inner)
}

function type(schema: Node): string {
  if (typeof schema.$ref === 'string') {
    const name = schema.$ref.split('/').at(-1)!
    return `<a href="#schema-${name}">${name}</a>`
  }
  if (schema.type === 'array') return `array of ${type(schema.items as Node)}`
  if (Array.isArray(schema.anyOf)) return schema.anyOf.map((one) => type(one as Node)).join(' or ')
  return escapeHtml(schema.format ?? schema.type ?? (schema.enum ? 'string' : 'any'))
}

function rules(field: Node): string {
  const values = (field.enum ?? (field.items as Node | undefined)?.enum) as string[] | undefined
  const said = [
    values && `One of ${values.map((value) => `<code>${escapeHtml(value)}</code>`).join(', ')}.`,
    field.maxLength && `At most ${field.maxLength} characters.`,
    field.maximum && `${field.minimum} to ${field.maximum}.`,
    field.pattern && `<code>${escapeHtml(field.pattern)}</code>`,
  ]
  return said.filter(Boolean).join(' ')
}

const basis = (node: Node): string => {
  if (node['x-basis'] === 'specified') return '<span class="basis specified">specified</span>'
  return node['x-basis'] === 'chosen' ? `<span class="basis">chosen&nbsp;${node['x-decision']}</span>` : ''
}

const contentSchema = (node: Node | undefined): Node | null => {
  const content = Object.values((node?.content as Record<string, Node> | undefined) ?? {})[0]
  return (content?.schema as Node | undefined) ?? null
}

const resolve = (schema: Node, document: OpenApi): Node =>
  typeof schema.$ref === 'string' ? document.components.schemas[schema.$ref.split('/').at(-1)!]! : schema

const anchor = (method: string, path: string): string => `${method}${path.replace(/[^a-z0-9]+/gi, '-')}`

const escapeHtml = (text: unknown): string =>
  String(text ?? '').replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]!)

const prose = (text: unknown): string =>
  escapeHtml(text)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replaceAll('\n\n', '</p><p>')
