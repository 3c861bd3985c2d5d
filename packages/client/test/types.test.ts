import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { expect, onTestFinished, test } from 'vitest'
import { eventTypes } from '../../server/src/delivery/events.ts'
import { faultCatalogue } from '../../server/src/lib/fault-catalogue.ts'
import { ownedApi } from '../../server/test/kit/owned-api.ts'
import { type Schema, typeOf } from './support/schema-types.ts'

/*
 * Makes a program that assigns every type of the OpenAPI document to that of the client and the other way round, and lets the
 * compiler find the differences.
 */

const api = ownedApi()
const source = (path: string) => fileURLToPath(new URL(path, import.meta.url))

type Operation = {
  parameters?: { name: string; in: string }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
  responses: Record<string, { content?: Record<string, { schema: Schema }> }>
}

const bodyOf = (operation: Operation) => operation.requestBody?.content['application/json']?.schema

/** Operations without a method of their own, and why. */
const notOffered: Record<string, string> = {
  'GET /api/v1/organizations/{org_id}/webhooks': 'webhooks.list reads the records of /platform/v1, which hold more',
  'POST /operator/v1/events': 'compared below: the client always sends an array',
  'GET /operator/v1/authorize': 'for proxies, which read the answer from headers',
}

const paging = ['limit', 'cursor']
const bothWays = (name: string, a: string, b: string) => [
  `{ const client: ${a} = null! as ${b}; void client } // ${name}`,
  `{ const server: ${b} = null! as ${a}; void server } // ${name}`,
]

function typesOf(schemas: Record<string, Schema>) {
  const isEventType = (schema: Schema) => schema.enum?.join() === eventTypes.join()
  return (schema: Schema | undefined): string =>
    schema === undefined ? 'never' : typeOf(schema, schemas, (one) => (isEventType(one) ? 'EventType' : null))
}

function operationLines(name: string, operation: Operation, of: (schema: Schema | undefined) => string): string[] {
  const success = Object.entries(operation.responses).find(([status]) => status.startsWith('2'))![1]
  // A stream is text for OpenAPI; its records are those of the list.
  const answer = success.content?.['text/event-stream'] ? undefined : success.content?.['application/json']?.schema
  const query = (operation.parameters ?? []).filter((one) => one.in === 'query' && !paging.includes(one.name))
  const names = query.map((one) => JSON.stringify(one.name)).join(' | ') || 'never'
  const offered = (part: string) => `Offered[${JSON.stringify(name)}]['${part}']`
  return [
    ...bothWays(`answer of ${name}`, offered('answer'), of(answer)),
    ...bothWays(`query of ${name}`, offered('query'), names),
    ...bothWays(`body of ${name}`, offered('body'), of(bodyOf(operation))),
  ]
}

async function differences(lines: string[]): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-types-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'program.ts')
  await writeFile(file, lines.join('\n'))
  const config = ts.getParsedCommandLineOfConfigFile(
    source('../tsconfig.json'),
    {},
    {
      ...ts.sys,
      onUnRecoverableConfigFileDiagnostic: (diagnostic) => expect.fail(String(diagnostic.messageText)),
    },
  )!
  const program = ts.createProgram([file], config.options)
  return ts.getPreEmitDiagnostics(program).map((diagnostic) => {
    const text = ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n')
    const at = diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start!).line
    const isOurs = diagnostic.file?.fileName === file && at !== undefined
    return isOurs ? `${lines[at]!.split(' // ').at(-1)}: ${text}` : `${diagnostic.file?.fileName}: ${text}`
  })
}

test('the types of the client are those of /openapi.json, in both directions', async () => {
  const { document } = api.documented
  const of = typesOf(document.components.schemas as Record<string, Schema>)
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => /^(get|post|put|patch|delete)$/.test(method) && /^\/(api|platform|operator)\//.test(path))
      .map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation as unknown as Operation] as const),
  )
  const offered = operations.filter(([name]) => !(name in notOffered))
  expect(Object.keys(notOffered).filter((name) => !operations.some(([one]) => one === name))).toEqual([])
  const events = Object.entries(document.webhooks).map(([type, { post }]) => {
    const { properties } = (post as unknown as Operation).requestBody!.content['application/json']!.schema
    return [type, of(properties!.data)] as const
  })
  const publish = document.paths['/operator/v1/events']!.post as unknown as Operation
  const lines = [
    `import type { EventData, EventType, ProblemCode } from '${source('../src/index.ts')}'`,
    `import type { NewEvent } from '${source('../src/operator.ts')}'`,
    `import type { Offered } from '${source('./support/operations.ts')}'`,
    ...bothWays('all operations', 'keyof Offered', offered.map(([name]) => JSON.stringify(name)).join(' | ')),
    ...offered.flatMap(([name, operation]) => operationLines(name, operation, of)),
    ...events.flatMap(([type, data]) => bothWays(type, `EventData['${type}']`, `Required<${data}>`)),
    ...bothWays('problem codes', 'ProblemCode', of({ enum: Object.keys(faultCatalogue) })),
    ...bothWays('events to publish', 'NewEvent | NewEvent[]', of(bodyOf(publish))),
  ]
  expect(await differences(lines)).toEqual([])
})
