import type { OpenApi } from '../../src/compose/openapi.ts'

export type Node = Record<string, unknown>
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null

/** Visits every object of the document with the path that leads to it. */
export function* walk(node: unknown, path: string[] = []): Generator<[path: string[], node: Node]> {
  if (!isNode(node)) return
  yield [path, node]
  for (const [key, child] of Object.entries(node)) yield* walk(child, [...path, key])
}

/** The basis of every object of the document: its own mark, or that of the nearest object around it that has one. */
export function basesOf(node: unknown, around?: Node, found = new Map<unknown, Node>()): Map<unknown, Node> {
  if (!isNode(node)) return found
  const basis = 'x-basis' in node ? node : around
  if (basis !== undefined) found.set(node, basis)
  for (const child of Object.values(node)) basesOf(child, basis, found)
  return found
}

const parts = ['parameters', 'headers', 'responses']

/**
 * Everything that needs an `x-basis`, of its own or of what it is part of: operations, parameters, bodies, responses, headers,
 * fields and security schemes. A field with the name of one of those parts is still a field.
 */
export function* marked(document: OpenApi): Generator<[where: string, node: Node]> {
  for (const [path, node] of walk(document)) {
    const [parent, own] = [path.at(-2), path.at(-1)!]
    const inSchema = path.includes('schema') || path.includes('schemas')
    const isOperation = (path[0] === 'paths' || path[0] === 'webhooks') && path.length === 3
    const isField = parent === 'properties' && path.at(-3) !== 'properties'
    const isPart = !inSchema && (parts.includes(parent ?? '') || own === 'requestBody')
    const isAnywhere = path.length === 1 && own === 'x-any-request'
    if (isOperation || isField || isPart || isAnywhere || parent === 'securitySchemes') yield [path.join(' '), node]
  }
}
