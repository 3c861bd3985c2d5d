import type { OpenApi } from '../openapi/openapi.ts'
import type { Json } from '../openapi/openapi-node.ts'
import { fieldsOf } from './reference-fields.ts'
import { choicesOf, escapeHtml, heading, prose, table, tag } from './reference-html.ts'
import {
  answersTable,
  type Operation,
  operationSection,
  operationsOf,
  parameterRow,
  verb,
} from './reference-operation.ts'
import { style } from './reference-style.ts'
import type { Decision } from './register.ts'

/** Who a path is for, in the order of the page. */
const surfaces: [prefix: string, title: string][] = [
  ['/api/v1/', 'Published interface'],
  ['/platform/v1/', 'Platform'],
  ['/operator/v1/', 'Operators'],
  ['/', 'Service'],
]

type Part = { id: string; title: string; links: [href: string, html: string][]; html: string }

/** The reference as one page of HTML: no scripts, nothing loaded from elsewhere, readable in any browser and on paper. */
export function referencePage(document: OpenApi, decisions: readonly Decision[]): string {
  const parts = [...operationParts(document), deliveries(document), anyRequest(document), register(decisions)]
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Keyhook reference</title><style>${style}</style></head><body>
<nav aria-label="Contents"><p class="brand"><a href="#top">Keyhook</a></p>${parts.map(contents).join('')}<p><a href="/openapi.json">openapi.json</a></p></nav>
<main id="top"><h1>Keyhook reference</h1>${introduction(document)}
${parts.map(({ id, title, html }) => `${heading(2, id, title)}${html}`).join('\n')}</main></body></html>`
}

const contents = ({ id, title, links }: Part): string =>
  `<h2><a href="#${id}">${title}</a></h2><ul>${links.map(([href, html]) => `<li><a href="#${href}">${html}</a></li>`).join('')}</ul>`

const introduction = (document: OpenApi): string => {
  const { bearer } = document.components.securitySchemes as { bearer: Json }
  return `<p>Every call sends <code>Authorization: Bearer &lt;token&gt;</code> with an API key or a login token, and bodies are JSON. ${tag(bearer)}</p>${choicesOf(bearer)}
<p><span class="tag specified">specified</span> marks what the published interface shows. <span class="tag">chosen&nbsp;n</span> marks what it leaves open, and leads to <a href="#decisions">the decision</a> that fills the gap. Every answer carries <code>Cache-Control: no-store</code>. ${tag({ 'x-basis': 'chosen', 'x-decision': 33 })}</p>${choicesOf(document.info as Json)}
<p>The examples can be pasted once their variables are set:</p>
<pre tabindex="0"><code>KEYHOOK=http://127.0.0.1:8080   # or wherever this page comes from
TOKEN=…                         # an API key, or: npx keyhook token issue --user usr_…
OPERATOR_TOKEN=…                # for /operator/v1: npx keyhook token issue --operator
ORG=org_…                       # and so on, for the other ids in a path</code></pre>`
}

function operationParts(document: OpenApi): Part[] {
  const groups = Map.groupBy(
    operationsOf(document),
    ({ path }) => surfaces.find(([prefix]) => path.startsWith(prefix))![1],
  )
  return surfaces.flatMap(([, title]) => {
    const operations = groups.get(title) ?? []
    const links = operations.map((one): [string, string] => [one.id, contentsLine(one)])
    const html = operations.map((one) => operationSection(one, document)).join('')
    return operations.length === 0 ? [] : [{ id: title.toLowerCase().replace(' ', '-'), title, links, html }]
  })
}

const contentsLine = ({ method, operation }: Operation): string => `${verb(method)} ${escapeHtml(operation.summary)}`

/** The other direction. What is the same for every type of event is said once. */
function deliveries(document: OpenApi): Part {
  const events = Object.entries(document.webhooks).map(([type, { post }]) => ({ type, post }))
  const shared = events[0]!.post
  const [, told] = /^[^.]+\. (.+)$/s.exec(String(shared.description))!
  const sections = events.map(
    ({ type, post }) =>
      `<section>${heading(3, `event-${type}`, `<code>${type}</code> ${tag(post)}`)}<p>${prose(/^[^.]+\./.exec(String(post.description))![0])}</p>${fieldsOf(dataOf(post), document)}</section>`,
  )
  const html = `<p>${prose(told)} ${tag(shared)}</p>${choicesOf(shared)}
<h4>Headers</h4>${table((shared.parameters as Json[]).map(parameterRow))}
<h4>Body ${tag(shared.requestBody as Json)}</h4>${fieldsOf({ ...bodyOf(shared), properties: outer(shared) }, document)}
<h4>What your answer means</h4>${answersTable(Object.entries(shared.responses as Record<string, Json>).sort())}${sections.join('')}`
  const links = events.map(({ type }): [string, string] => [`event-${type}`, type])
  return { id: 'deliveries', title: 'Deliveries', links, html }
}

const bodyOf = (operation: Json): Json & { properties: Record<string, Json> } => {
  const { content } = operation.requestBody as { content: { 'application/json': { schema: Json } } }
  return content['application/json'].schema as Json & { properties: Record<string, Json> }
}
const dataOf = (operation: Json): Json => bodyOf(operation).properties.data!

/** The frame of a body, without what only one type of event has inside. */
const outer = (operation: Json): Record<string, Json> => {
  const { data, ...rest } = bodyOf(operation).properties
  return { ...rest, data: { ...data, properties: undefined } }
}

function anyRequest(document: OpenApi): Part {
  const any = document['x-any-request'] as { responses: Record<string, Json>; description: string }
  const [first] = Object.values(document.paths) as Record<string, { responses: Record<string, Json> }>[]
  const answers = { ...any.responses, ...first!['x-other-methods']!.responses }
  const html = `<p>${prose(any.description)}</p>${choicesOf(any)}${answersTable(Object.entries(answers))}
<section>${heading(3, 'problem', 'A problem')}<p>The body of every answer that is not a success, as <code>application/problem+json</code>.</p>${fieldsOf(document.components.schemas.Problem!, document)}</section>`
  return { id: 'any-request', title: 'Any request', links: [['problem', 'A problem']], html }
}

function register(decisions: readonly Decision[]): Part {
  const entries = decisions.map(({ number, title, said }) => {
    const lines = [...said].map(([name, text]) => `<dt>${escapeHtml(name)}</dt><dd>${prose(text)}</dd>`)
    return `<section>${heading(3, `decision-${number}`, `${number}. ${escapeHtml(title)}`)}<dl>${lines.join('')}</dl></section>`
  })
  return { id: 'decisions', title: 'Decisions', links: [], html: entries.join('') }
}
