import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { expect } from 'vitest'
import type { OpenApi } from '../../src/compose/openapi.ts'
import { labelProblem, webhookUrlProblem } from '../../src/lib/label.ts'
import { call, type Reply } from './client.ts'

type Content = Record<string, { schema: object }>
type Response = { content?: Content; headers?: Record<string, unknown> }
type Operation = { responses: Record<string, Response> }

export type Documented = {
  document: OpenApi
  /** Calls an operation and checks the response against /openapi.json. */
  call<T = unknown>(
    method: string,
    template: string,
    url: string,
    options?: Parameters<typeof call>[1],
  ): Promise<Reply<T>>
  check(method: string, template: string, reply: { status: number; text: string; headers: Headers }): void
  checkProblem(body: unknown): void
  /** Checks a value against the schema at this path of the document. */
  checkValue(path: readonly string[], value: unknown): void
}

const dateTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/

/** Headers that HTTP itself defines. */
const ofHttp = ['connection', 'content-length', 'content-type', 'date', 'keep-alive', 'transfer-encoding']

function undocumented(headers: Headers, response: Response): string[] {
  const known = new Set([...ofHttp, ...Object.keys(response.headers ?? {}).map((name) => name.toLowerCase())])
  return [...headers.keys()].filter((name) => !known.has(name))
}

/** Reads the document over HTTP, as a client would. */
export async function readDocumented(url: string): Promise<Documented> {
  const document = (await call<OpenApi>(`${url}/openapi.json`)).body
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  ajv.addFormat('date-time', dateTime)
  ajv.addFormat('label', (text) => labelProblem(text) === null)
  ajv.addFormat('webhook-url', (text) => webhookUrlProblem(text) === null)
  ajv.addSchema({ $id: 'doc', ...document })
  const compiled = new Map<string, ValidateFunction>()

  function validate(path: readonly string[], value: unknown): void {
    const parts = path.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
    const pointer = `/${parts.join('/')}`
    let validator = compiled.get(pointer)
    if (validator === undefined) {
      validator = ajv.compile({ $ref: `doc#${pointer}` })
      compiled.set(pointer, validator)
    }
    const valid = validator(value)
    expect(valid, `${pointer}: ${JSON.stringify(validator.errors)} in ${JSON.stringify(value)}`).toBe(true)
  }

  function check(method: string, template: string, reply: { status: number; text: string; headers: Headers }): void {
    const operation = document.paths[template]?.[method.toLowerCase()] as Operation | undefined
    expect(operation, `${method} ${template} is documented`).toBeDefined()
    const response = operation!.responses[reply.status]
    expect(response, `${method} ${template} documents ${reply.status} (${reply.text.slice(0, 200)})`).toBeDefined()
    expect(undocumented(reply.headers, response!), `${method} ${template} documents its headers`).toEqual([])
    const [mediaType] = Object.keys(response!.content ?? {})
    if (mediaType === undefined) {
      expect(reply.text).toBe('')
      return
    }
    expect(reply.headers.get('content-type')?.split(';')[0]).toBe(mediaType)
    if (!mediaType.endsWith('json')) return
    const answer = ['responses', String(reply.status), 'content', mediaType, 'schema']
    validate(['paths', template, method.toLowerCase(), ...answer], JSON.parse(reply.text))
  }

  return {
    document,
    check,
    checkProblem: (body) => validate(['components', 'schemas', 'Problem'], body),
    checkValue: validate,
    async call(method, template, path, options) {
      const reply = await call<never>(path, { method, ...options })
      check(method, template, reply)
      return reply
    },
  }
}
