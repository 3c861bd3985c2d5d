import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import autocannon from 'autocannon'

/** One client for both sides of a comparison: wrk where it is installed, autocannon where it is not. */
export type Load = { client: string; requestsPerSecond(url: string, tokens: readonly string[]): Promise<number> }

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
    async requestsPerSecond(url, tokens) {
      const script = join(folder, 'tokens.lua')
      // Requests are formatted before the clock starts: wrk's own work must be the same for both sides.
      writeFileSync(
        script,
        `local tokens = {${tokens.map((token) => `"${token}"`).join(',')}}
local requests, n = {}, 0
function init() for i, token in ipairs(tokens) do requests[i] = wrk.format("GET", nil, { ["Authorization"] = "Bearer " .. token }) end end
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
    async requestsPerSecond(url, tokens) {
      const requests = tokens.slice(0, 1_000).map((token) => ({ headers: { authorization: `Bearer ${token}` } }))
      const result = await autocannon({ url, connections, duration: seconds, requests })
      if (result.non2xx > 0) throw new Error(`${result.non2xx} answers were not a success`)
      return result.requests.average
    },
  }
}
