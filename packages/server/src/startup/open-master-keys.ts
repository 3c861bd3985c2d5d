import { randomBytes } from 'node:crypto'
import type { Config } from '../config.ts'
import type { Database } from '../db/database.ts'
import { createMasterKeys, type MasterKeys } from '../kernel/master-keys.ts'
import { anySecretUnder, keyIdsInUse } from '../store/webhook-secrets.ts'
import { lastKeyId, makeMasterKey, masterKeyPath, readMasterKey } from './master-key-file.ts'

/** A key that is needed is not among those that are here. The text says what to do. */
export class MasterKeyMissing extends Error {
  override readonly name = 'MasterKeyMissing'
}

type Place = Pick<Config, 'masterKeys' | 'dataDir'>

type Options = {
  /** For work that opens no secret, and for what is done once a key is lost for good. */
  keysMayBeMissing?: boolean | undefined
  /** Some secrets cannot be opened, and others can. */
  onSomeMissing?: ((keyIds: string[]) => void) | undefined
}

/**
 * The keys of the settings or of the data directory; the first one is made where no secret was ever sealed. Where secrets
 * were, a new key would look like a good start, and no webhook would be delivered to any more.
 */
export async function openMasterKeys(db: Database, config: Place, options: Options = {}): Promise<MasterKeys> {
  const given = config.masterKeys ?? (await readFromFile(config.dataDir))
  const known = given && createMasterKeys(given)
  if (config.masterKeys === null && !options.keysMayBeMissing) await refuseGoingBack(config, known)
  const missing = (await keyIdsInUse(db)).filter((id) => !known?.keyIds.includes(id))
  if (missing.length === 0) return known ?? createMasterKeys([await makeMasterKey(config.dataDir)])
  if (known !== null && (await anySecretUnder(db, known.keyIds))) options.onSomeMissing?.(missing)
  else if (!options.keysMayBeMissing) throw new MasterKeyMissing(explain(config, known, missing, sealed))
  // Not kept: it seals nothing that anybody would have to open later.
  return known ?? createMasterKeys([randomBytes(32)])
}

/** Who sets the variable says which key it shall be. Who does not gets the one of last time, or none. */
async function refuseGoingBack(config: Place, known: MasterKeys | null): Promise<void> {
  const last = await lastKeyId(config.dataDir)
  if (last === null || last === known?.currentKeyId) return
  throw new MasterKeyMissing(explain(config, known, [last], 'with which the server ran last'))
}

const readFromFile = async (dataDir: string): Promise<[Buffer] | null> => {
  const key = await readMasterKey(dataDir)
  return key === null ? null : [key]
}

const sealed = 'under which the secrets of webhooks are sealed'

function explain(config: Place, known: MasterKeys | null, missing: string[], why: string): string {
  const path = masterKeyPath(config.dataDir)
  // First of all: who forgot the variable in a second terminal has lost nothing.
  const forgotten = config.masterKeys ? '' : 'If the server runs with KEYHOOK_MASTER_KEY, set it here too. '
  const where = config.masterKeys ? 'KEYHOOK_MASTER_KEY does not list' : `${path} does not hold`
  const what = known === null ? `${path} is missing, which may have held` : where
  const mend = config.masterKeys ? 'List it too (KEYHOOK_MASTER_KEY=<new>,<old>)' : 'Restore it from a backup'
  return (
    `${forgotten}${what} master key ${missing.join(' or ')}, ${why}. ${mend}; or, if it is lost for good, ` +
    `delete the webhooks that it sealed: npx keyhook secrets abandon --key ${missing[0]}`
  )
}
