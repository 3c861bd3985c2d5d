import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { archiveKeyIds, countArchivesUnder } from '../../src/backups/sql.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { openMasterKeys } from '../../src/startup/master-keys.ts'
import { createInstallation, people } from '../kit/installation.ts'
import { scratchDirectory } from '../kit/processes.ts'

const key = randomBytes(32)
const { currentKeyId: keyId } = createMasterKeys([key])
let installation: Awaited<ReturnType<typeof createInstallation>>

/** A backup whose archive is encrypted under `key`, and one that is deleted, under another. */
beforeAll(async () => {
  installation = await createInstallation()
  const { db } = installation
  const who = people(installation)
  const orgId = await who.organization()
  const { userId } = await who.person([{ orgId, role: 'owner' }])
  await db`
    insert into keyhook.databases (org_id, id, name, status, created_by) values (${orgId}, 'db_1', 'd', 'failed', ${userId})`
  await db`
    insert into keyhook.backups (org_id, id, database_id, node, origin, status, size_bytes, sha256, key_id)
    values (${orgId}, 'bak_1', 'db_1', 'n', 'requested', 'completed', 1, '', ${keyId}),
      (${orgId}, 'bak_2', 'db_1', 'n', 'requested', 'deleted', 1, '', 'gone')`
})
afterAll(() => installation.close())

test('a master key that archives need and that is not listed is reported at the start', async () => {
  const { db } = installation
  const missing: string[] = []
  const options = { onArchiveKeysMissing: (keyIds: string[]) => missing.push(...keyIds) }
  const dataDir = await scratchDirectory()
  const fresh = randomBytes(32)
  await openMasterKeys(db, { masterKeys: [fresh, key], dataDir }, options)
  expect(missing).toEqual([])
  await openMasterKeys(db, { masterKeys: [fresh], dataDir }, options)
  expect(missing).toEqual([keyId])
  expect(await archiveKeyIds(db)).toEqual([keyId])
  expect(await countArchivesUnder(db, [keyId, 'gone'])).toBe(1)
})

test('no new master.key is made in the place of one that archives need', async () => {
  const { db } = installation
  const dataDir = await scratchDirectory()
  const lost = openMasterKeys(db, { masterKeys: null, dataDir })
  await expect(lost).rejects.toThrow(`master key ${keyId}, under which archives of backups are encrypted`)
  // Commands that open no secret work, with a key that is stored nowhere.
  await openMasterKeys(db, { masterKeys: null, dataDir }, { keysMayBeMissing: true })
  expect(await readdir(dataDir)).toEqual([])
})
