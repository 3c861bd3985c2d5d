import type { OpenApi } from '../openapi/openapi.ts'
import type { Json } from '../openapi/openapi-node.ts'
import { fieldsOf, rulesOf, typeOf } from './reference-fields.ts'
import { choicesOf, escapeHtml, heading, prose, table, tag } from './reference-html.ts'

export type Operation = { id: string; method: string; path: string; operation: Json }

export const operationsOf = (document: OpenApi): Operation[] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => !method.startsWith('x-'))
      .map(([method, operation]) => ({
        id: String(operation.operationId),
        method: method.toUpperCase(),
        path,
        operation,
      })),
  )

export const verb = (method: string): string => `<span class="verb ${method}">${method}</span>`

export function operationSection({ id, method, path, operation }: Operation, document: OpenApi): string {
  const parameters = (operation.parameters as Json[] | undefined) ?? []
  const body = operation.requestBody as Json | undefined
  const answers = Object.entries(operation.responses as Record<string, Json>)
  const isSuccess = ([status]: [string, Json]) => status.startsWith('2')
  const [{ source } = { source: '' }] = (operation['x-codeSamples'] as { source: string }[] | undefined) ?? []
  return `<section>${heading(3, id, `${escapeHtml(operation.summary)} ${tag(operation)}`)}
<p class="call">${verb(method)} <code>${escapeHtml(path).replaceAll('/', '/<wbr>')}</code></p>
<p>${prose(operation.description)}</p>${choicesOf(operation)}
<pre tabindex="0"><code>${escapeHtml(source)}</code></pre>
${parameters.length === 0 ? '' : `<h4>Parameters</h4>${table(parameters.map(parameterRow))}`}
${body === undefined ? '' : `<h4>Request body ${tag(body)}</h4>${fieldsOf(contentSchema(body)!, document)}${choicesOf(body)}`}
${answers
  .filter(isSuccess)
  .map((one) => success(one, document))
  .join('')}
${problems(answers.filter((one) => !isSuccess(one)))}</section>`
}

export const parameterRow = (parameter: Json): string =>
  `<tr><th><code>${escapeHtml(parameter.name)}</code></th><td class="type">${escapeHtml(parameter.in)}</td><td>${prose(parameter.description)} ${rulesOf(parameter.schema as Json)} ${tag(parameter)}${choicesOf(parameter)}</td></tr>`

function success([status, response]: [string, Json], document: OpenApi): string {
  const schema = contentSchema(response)
  const type = schema === null ? '' : ` <span class="type">${typeOf(schema)} ${tag(schema)}</span>`
  return `<h4>Answer ${status}${type}</h4><p>${prose(response.description)} ${tag(response)}</p>${headersOf(response)}${schema === null ? '' : fieldsOf(schema, document)}`
}

/** Closed at first: the same few stand below every operation. */
const problems = (answers: readonly [string, Json][]): string =>
  answers.length === 0
    ? ''
    : `<details><summary>Problems: ${answers.map(([status]) => status).join(', ')}</summary>${answersTable(answers)}</details>`

export const answersTable = (answers: readonly [string, Json][]): string => table(answers.map(answerRow), 'answers')

const answerRow = ([status, response]: [string, Json]): string =>
  `<tr><th>${escapeHtml(status)}</th><td>${prose(response.description)} ${tag(response)}${headersOf(response)}${choicesOf(response)}</td></tr>`

/** All but the one that every answer carries; the introduction tells of that. */
function headersOf(response: Json): string {
  const headers = Object.entries((response.headers as Record<string, Json> | undefined) ?? {})
  const own = headers.filter(([name]) => name !== 'Cache-Control')
  const said = own.map(([name, header]) => `<li><code>${name}</code>: ${prose(header.description)} ${tag(header)}</li>`)
  return said.length === 0 ? '' : `<ul class="headers">${said.join('')}</ul>`
}

const contentSchema = (node: Json): Json | null => {
  const content = Object.values((node.content as Record<string, Json> | undefined) ?? {})[0]
  return (content?.schema as Json | undefined) ?? null
}
