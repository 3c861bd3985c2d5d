import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { connectionString, scramVerifier } from '../../src/databases/database.ts'
import { nodeOf } from '../../src/databases/drivers/local/home.ts'
import { newId } from '../../src/lib/ids.ts'
import { openInstances } from '../databases/support/local-instances.ts'
import { scratchFolder } from '../databases/support/platform.ts'
import { customerSql } from '../kit/customer-sql.ts'

const { signal } = new AbortController()

async function provisioned() {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const { dataDir } = await nodeOf(join(folder, 'data'))
  const id = newId('db')
  let instances = openInstances(dataDir)
  onTestFinished(() => instances.remove(id).finally(() => instances.close()))
  const { host, port } = await instances.provision(id, { passwordVerifier: await scramVerifier('secret'), signal })
  const url = connectionString(host, port, { hasTls: false })
  return {
    /** What is stored after this position, by name. */
    async archive(after: string | null) {
      const stored = new Map<string, Buffer>()
      const store = async (name: string, content: Buffer) => void stored.set(name, content)
      return { ...(await instances.archiveWal(id, { after, store, signal })), stored }
    },
    async commit() {
      const sql = customerSql(url, 'secret')
      await sql`create table if not exists written (n int)`
      await sql`insert into written values (1)`
      await sql.end({ timeout: 1 })
    },
    /** An orderly stop, which writes the slot to disk. */
    async restart() {
      await instances.close()
      instances = openInstances(dataDir)
      await instances.resume(id, { signal })
    },
  }
}

test('a segment whose storing was not recorded is kept and stored again, the same', { timeout: 60_000 }, async () => {
  const { archive, commit, restart } = await provisioned()
  const first = await archive(null)
  expect(first.from).not.toBeNull()
  await commit()
  const second = await archive(first.until)
  expect([second.from, second.stored.size]).toEqual([null, 1])
  await restart()
  const again = await archive(first.until)
  expect(again.from).toBeNull()
  const [name, content] = [...second.stored][0]!
  expect(again.stored.get(name)?.equals(content)).toBe(true)
})

test('an idle database writes no segments, and what is lost is reported as a new start', {
  timeout: 60_000,
}, async () => {
  const { archive, commit } = await provisioned()
  const first = await archive(null)
  await commit()
  const second = await archive(first.until)
  const idle = await archive(second.until)
  expect([idle.from, idle.until, idle.stored.size]).toEqual([null, second.until, 0])
  expect(idle.at.getTime()).toBeGreaterThanOrEqual(second.at.getTime())
  // The slot has moved on to what was recorded; the record went back, as after a restore of Keyhook's own database.
  const lost = await archive(first.until)
  expect(lost.from).not.toBeNull()
})
