import { expect, onTestFinished } from 'vitest'
import { call } from '../../kit/client.ts'
import { startApi } from '../../kit/installation.ts'
import { type Ended, keyhookHere, scratchDirectory } from '../../kit/processes.ts'

/** Commands of a customer: with folders of their own for what is stored, and only the settings that are given. */
export async function openTerminal(environment: Record<string, string> = {}) {
  const home = await scratchDirectory()
  const env = { XDG_CONFIG_HOME: `${home}/config`, XDG_STATE_HOME: `${home}/state`, ...environment }
  const run = (...args: string[]): Promise<Ended> => keyhookHere(args, env)
  return {
    home,
    env,
    run,
    /** The text of a command that succeeds. */
    async text(...args: string[]): Promise<string> {
      const ended = await run(...args)
      expect(ended, args.join(' ')).toMatchObject({ code: 0 })
      return ended.stdout
    },
    async json<T>(...args: string[]): Promise<T> {
      const ended = await run(...args, '--json')
      expect(ended, args.join(' ')).toMatchObject({ code: 0 })
      return JSON.parse(ended.stdout)
    },
  }
}

/** A server with an organization, and an owner of it with a terminal. */
export async function ownersTerminal() {
  const api = await startApi()
  onTestFinished(() => api.close())
  const orgId = await api.organization()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const { body: key } = await call<{ id: string; api_key: string; key_prefix: string }>(
    `${api.url}/api/v1/organizations/${orgId}/api-keys`,
    {
      token: owner.token,
      body: { name: 'terminal' },
    },
  )
  const terminal = await openTerminal({ KEYHOOK_URL: api.url, KEYHOOK_TOKEN: key.api_key })
  return { api, orgId, owner, key, terminal }
}
