import type { OpenApi } from './openapi.ts'
import { style } from './reference-style.ts'

type Node = Record<string, unknown>

type Operation = { method: string; path: string; operation: Node }

/** Who a path is for, in the order of the page. */
const surfaces: [prefix: string, title: string][] = [
  ['/api/v1/', 'Published interface'],
  ['/platform/v1/', 'Platform'],
  ['/operator/v1/', 'Operators'],
  ['/', 'Health'],
]

/** The reference as one page of HTML: no scripts, nothing loaded from elsewhere, readable in any browser and on paper. */
export function referencePage(document: OpenApi): string {
  const groups = Map.groupBy(
    operationsOf(document),
    ({ path }) => surfaces.find(([prefix]) => path.startsWith(prefix))![1],
  )
  const titles = surfaces.map(([, title]) => title).filter((title) => groups.has(title))
  const contents = titles.map((title) => `<h3>${title}</h3><ul>${groups.get(title)!.map(contentsLine).join('')}</ul>`)
  const sections = titles.map(
    (title) =>
      `<h1>${title}</h1>${groups
        .get(title)!
        .map((one) => section(one, document))
        .join('')}`,
  )
  const names = Object.keys(document.components.schemas).sort()
  const records = names.map(
    (name) => `<section id="schema-${name}"><h2>${name}</h2>${fields(document.components.schemas[name]!)}</section>`,
  )
  const recordLinks = names.map((name) => `<li><a href="#schema-${name}">${name}</a></li>`)
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Keyhook reference</title><style>${style}</style></head><body>
<nav><h1>Keyhook</h1>${contents.join('')}<h3>Records</h3><ul>${recordLinks.join('')}</ul><p><a href="/openapi.json">openapi.json</a></p></nav>
<main><p class="intro">Every call sends <code>Authorization: Bearer &lt;token&gt;</code>, with an API key or a login token.
<span class="basis specified">specified</span> marks what the published interface shows, <span class="basis">chosen&nbsp;n</span> what it leaves open, with the number of our decision.</p>
${sections.join('\n')}<h1>Records</h1>${records.join('\n')}</main></body></html>`
}

const operationsOf = (document: OpenApi): Operation[] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  )

const contentsLine = ({ method, path, operation }: Operation): string =>
  `<li><a href="#${anchor(method, path)}"><span class="verb ${method}">${method}</span> ${escapeHtml(operation.summary)}</a></li>`

function section({ method, path, operation }: Operation, document: OpenApi): string {
  const parameters = (operation.parameters as Node[] | undefined) ?? []
  const body = contentSchema(operation.requestBody as Node | undefined)
  return `<section id="${anchor(method, path)}">
<h2>${escapeHtml(operation.summary)} ${basis(operation)}</h2>
<p class="call"><span class="verb ${method}">${method}</span> <code>${escapeHtml(path)}</code></p>
<p>${prose(operation.description ?? '')}</p>
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
  return escapeHtml(schema.format === 'date-time' ? 'date-time' : (schema.type ?? (schema.enum ? 'string' : 'any')))
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
