import { expect } from 'vitest'
import type { Problem } from '../../src/http/problems.ts'
import type { ownedApi } from './owned-api.ts'
import type { RawReply } from './raw-http.ts'

/** Checks that a raw response has this problem, as documented and not cacheable, and returns it. */
export const problemOf =
  (api: Pick<ReturnType<typeof ownedApi>, 'documented'>) =>
  (reply: Pick<RawReply, 'status' | 'headers' | 'body'>, status: number, code: string): Problem => {
    expect(reply.status, reply.body).toBe(status)
    expect(reply.headers['content-type']).toBe('application/problem+json; charset=utf-8')
    expect(reply.headers['cache-control']).toBe('no-store')
    const problem = JSON.parse(reply.body) as Problem
    api.documented.checkProblem(problem)
    expect(problem.code).toBe(code)
    expect(problem.status).toBe(status)
    return problem
  }
