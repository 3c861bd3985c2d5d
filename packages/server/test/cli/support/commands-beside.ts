import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { startApi } from '../../kit/installation.ts'
import { bridgeTo, type Ended, keyhookHere } from '../../kit/processes.ts'

export type CommandsBeside = Awaited<ReturnType<typeof commandsBeside>>

/** A server, and commands of the real program on the same database. */
export async function commandsBeside(settings: Record<string, string> = {}) {
  const masterKey = randomBytes(32).toString('base64')
  const api = await startApi({ ...settings, KEYHOOK_MASTER_KEY: masterKey })
  const bridge = await bridgeTo(api.target, { keep: true })
  const environment = { DATABASE_URL: bridge.url, KEYHOOK_MASTER_KEY: masterKey }
  const run = (...args: string[]): Promise<Ended> => keyhookHere(args, environment)
  return {
    api,
    environment,
    run,
    /** The output with --json: exactly one line. */
    async json<T>(...args: string[]): Promise<T> {
      const ended = await run(...args, '--json')
      expect(ended, args.join(' ')).toMatchObject({ code: 0, stderr: '' })
      expect(ended.stdout.match(/\n/g)).toHaveLength(1)
      expect(ended.stdout.endsWith('\n')).toBe(true)
      return JSON.parse(ended.stdout)
    },
    /** The output for people. */
    async text(expected: RegExp, ...given: string[]): Promise<void> {
      const ended = await run(...given)
      expect(ended, given.join(' ')).toMatchObject({ code: 0 })
      expect(ended.stdout).toMatch(expected)
      expect(() => JSON.parse(ended.stdout)).toThrow()
    },
    async close(): Promise<void> {
      await bridge.cut()
      await api.close()
    },
  }
}
