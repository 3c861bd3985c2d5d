import { permissionTable, type Role } from '../../domain/roles.ts'
import { type Choice, choice, withChoices } from '../basis.ts'
import type { Route } from '../route.ts'
import { curlSample } from './openapi-example.ts'
import { type Json, plain } from './openapi-node.ts'
import { documentedPath, parametersOf } from './openapi-parameters.ts'
import { responsesOf } from './openapi-responses.ts'

export function operationOf(route: Route, schemas: Record<string, Json>): Json {
  const choices = [...(route.choices ?? []), whoMay(route), ...(route.method === 'GET' ? [headToo] : [])]
  return {
    operationId: operationId(route),
    summary: route.summary,
    description: route.description,
    ...withChoices(route.basis, choices),
    'x-permission': route.needs,
    parameters: parametersOf(route, schemas),
    ...(route.body && { requestBody: requestBody(route, schemas) }),
    responses: responsesOf(route, schemas),
    ...sampleOf(route),
  }
}

const operationId = (route: Route): string =>
  route.summary.replace(/ (\w)/g, (_, letter) => letter.toUpperCase()).replace(/^./, (c) => c.toLowerCase())

const sampleOf = (route: Route): Json =>
  curlSample({
    method: route.method,
    path: documentedPath(route.path),
    token: route.needs === 'operator' ? 'OPERATOR_TOKEN' : 'TOKEN',
    ...(route.body && { body: route.body as unknown as Json }),
  })

const headToo = choice(71, 'HEAD is answered with the same headers and no body.')

const requestBody = (route: Route, schemas: Record<string, Json>): Json => ({
  required: true,
  content: { 'application/json': { schema: plain(route.body, schemas) } },
  ...withChoices(route.basis, [
    choice(8, 'A field that is not listed here is refused.'),
    choice(70, 'Of a field that is named twice the last one counts.'),
  ]),
})

/** The decision that says who may: by what the permission is about. */
const decisionOfSubject: Record<string, number> = {
  organizations: 25,
  keys: 25,
  webhooks: 25,
  deliveries: 25,
  databases: 61,
  backups: 61,
  invoices: 61,
  audit: 31,
}

function whoMay({ needs }: Route): Choice {
  if (needs === 'operator') return choice(79, 'For operators: takes an operator token, and nothing else.')
  const decision = needs === 'deliveries:send' ? 47 : decisionOfSubject[needs.split(':')[0]!]!
  const reaches = Object.entries(permissionTable[needs]) as [Role, string][]
  const [all, own] = ['all', 'own'].map((reach) =>
    reaches.filter(([, given]) => given === reach).map(([role]) => `\`${role}\``),
  )
  const limited = own!.length === 0 ? '' : `; ${own!.join(' and ')} for what is their own`
  return choice(decision, `Needs the permission \`${needs}\`, for the roles ${all!.join(', ')}${limited}.`)
}
