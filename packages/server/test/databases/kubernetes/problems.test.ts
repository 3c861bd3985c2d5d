import { expect, test } from 'vitest'
import { ApiProblem, explainNotReady } from '../../../src/databases/drivers/kubernetes/problems.ts'

const answer = (status: number, reason: string, message: string, details?: object) =>
  new ApiProblem('PATCH /x', status, JSON.stringify({ kind: 'Status', reason, message, details }))

test('what the Kubernetes API rejects has words for the customer, and advice for the operator', () => {
  const quota = 'clusters "db-x" is forbidden: exceeded quota: none, requested: count/clusters=1, used: 5, limited: 5'
  for (const [problem, message, advice] of [
    [answer(403, 'Forbidden', quota), 'The Kubernetes cluster has no room for it.', 'ResourceQuota'],
    [answer(403, 'Forbidden', 'User "k" cannot patch'), 'Keyhook may not do this in the Kubernetes cluster.', 'role'],
    [answer(401, 'Unauthorized', 'Unauthorized'), 'Keyhook may not do this in the Kubernetes cluster.', 'role'],
    [answer(422, 'Invalid', 'spec.instances'), 'The Kubernetes cluster rejected the database.', 'version'],
    [answer(404, 'NotFound', 'not found'), 'The Kubernetes cluster is not prepared for databases.', 'Install'],
  ] as const) {
    expect(problem.message).toBe(message)
    expect((problem.cause as Error).message).toContain(advice)
  }
})

test('a missing resource differs from a missing kind, and only what may pass is tried again', () => {
  expect(answer(404, 'NotFound', 'clusters "x" not found', { name: 'x' }).isMissing).toBe(true)
  expect(answer(404, 'NotFound', 'the server could not find the requested resource').isMissing).toBe(false)
  const passing = [answer(500, '', ''), answer(503, '', ''), answer(429, '', ''), answer(410, 'Expired', '')]
  expect(passing.every((problem) => problem.isPassing && !problem.permanent)).toBe(true)
  expect(answer(409, 'Conflict', 'the object has been modified').isPassing).toBe(true)
  expect(answer(422, 'Invalid', '').permanent).toBe(true)
  const unknown = answer(500, '', 'failed to create typed patch object: .spec.x: field not declared in schema')
  expect(unknown).toMatchObject({ permanent: true, isPassing: false })
  expect(new ApiProblem('GET /x', 502, '<html>bad gateway').isPassing).toBe(true)
})

test('the events of Kubernetes are translated, and all of them are in the detail', () => {
  const waiting = { reason: 'FailedScheduling', message: '0/3 nodes are available: 3 Insufficient cpu.' }
  const volume = { reason: 'ProvisioningFailed', message: 'storageclass "fast" not found' }
  const image = { reason: 'Failed', message: 'Failed to pull image "x": not found' }
  expect(explainNotReady('Setting up primary', [waiting]).text).toBe('The Kubernetes cluster has no room for it.')
  expect(explainNotReady('Setting up primary', [volume]).text).toBe('Its storage could not be provided.')
  expect(explainNotReady('Setting up primary', [image]).text).toBe('The image of PostgreSQL could not be loaded.')
  expect(explainNotReady(undefined, [])).toEqual({ text: 'It did not become ready in time.', detail: 'no phase yet' })
  expect(explainNotReady('Setting up primary', [volume, image]).detail).toContain('Failed to pull image')
})
