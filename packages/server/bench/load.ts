import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import autocannon from 'autocannon'

/** One client for both sides of a comparison: wrk where it is installed, autocannon where it is not. */
export type Load = { client: string; requestsPerSecond(url: string, requests: readonly Request[]): Promise<number> }

/** A GET, or with a body a POST of JSON. */
export type Request = { token: string; body?: string }

export function createLoad(options: { connections: number; seconds: number }): Load {
  return hasWrk() ? wrk(options) : cannon(options)
}

function hasWrk(): boolean {
  try {
    execFileSync('which', ['wrk'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

function wrk({ connections, seconds }: { connections: number; seconds: number }): Load {
  const folder = mkdtempSync(join(tmpdir(), 'keyhook-bench-'))
  return {
    client: `wrk, 1 thread, ${connections} connections, ${seconds} s a turn`,
    async requestsPerSecond(url, requests) {
      const script = join(folder, 'requests.lua')
      const given = requests.map(({ token, body }) => `{"${token}", ${body === undefined ? 'nil' : `[=[${body}]=]`}}`)
      // Requests are formatted before the clock starts: wrk's own work must be the same for both sides.
      writeFileSync(
        script,
        `local given = {${given.join(',')}}
local requests, n = {}, 0
function init()
  for i, one in ipairs(given) do
    local headers = { ["Authorization"] = "Bearer " .. one[1], ["Content-Type"] = one[2] and "application/json" }
    requests[i] = wrk.format(one[2] and "POST" or "GET", nil, headers, one[2])
  end
end
function request() n = n % #requests + 1 return requests[n] end`,
      )
      const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, url]
      const { stdout } = await promisify(execFile)('wrk', args)
      if (/Non-2xx/.test(stdout)) throw new Error(`not every answer was a success:\n${stdout}`)
      return Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1])
    },
  }
}

function cannon({ connections, seconds }: { connections: number; seconds: number }): Load {
  return {
    client: `autocannon, ${connections} connections, ${seconds} s a turn`,
    async requestsPerSecond(url, given) {
      const requests = given.slice(0, 1_000).map(({ token, body }) => ({
        headers: {
          authorization: `Bearer ${token}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { method: 'POST' as const, body }),
      }))
      const result = await autocannon({ url, connections, duration: seconds, requests })
      if (result.non2xx > 0) throw new Error(`${result.non2xx} answers were not a success`)
      return result.requests.average
    },
  }
}
