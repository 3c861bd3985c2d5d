import { randomBytes } from 'node:crypto'
import type { Config } from '../config.ts'
import { createMasterKeys, type MasterKeys } from '../kernel/master-keys.ts'
import type { Database } from '../store/database.ts'
import { anySecretUnder, keyIdsInUse } from '../store/webhook-secrets.ts'
import { makeMasterKey, masterKeyPath, readMasterKey } from './master-key-file.ts'

/** None of the keys that are here opens any webhook secret. The text says what to do. */
export class MasterKeyMissing extends Error {
  override readonly name = 'MasterKeyMissing'
}

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
export async function openMasterKeys(
  db: Database,
  config: Pick<Config, 'masterKeys' | 'dataDir'>,
  options: Options = {},
): Promise<MasterKeys> {
  const given = config.masterKeys ?? (await readFromFile(config.dataDir))
  const known = given && createMasterKeys(given)
  const missing = (await keyIdsInUse(db)).filter((id) => !known?.keyIds.includes(id))
  if (missing.length === 0) return known ?? createMasterKeys([await makeMasterKey(config.dataDir)])
  if (known !== null && (await anySecretUnder(db, known.keyIds))) options.onSomeMissing?.(missing)
  else if (!options.keysMayBeMissing) throw new MasterKeyMissing(explain(config, known, missing))
  // Not kept: it seals nothing that anybody would have to open later.
  return known ?? createMasterKeys([randomBytes(32)])
}

const readFromFile = async (dataDir: string): Promise<[Buffer] | null> => {
  const key = await readMasterKey(dataDir)
  return key === null ? null : [key]
}

function explain(config: Pick<Config, 'masterKeys' | 'dataDir'>, known: MasterKeys | null, missing: string[]): string {
  const path = masterKeyPath(config.dataDir)
  // First of all: who forgot the variable in a second terminal has lost nothing.
  const forgotten = config.masterKeys ? '' : 'If the server runs with KEYHOOK_MASTER_KEY, set it here too. '
  const where = config.masterKeys ? 'KEYHOOK_MASTER_KEY does not list' : `${path} does not hold`
  const what = known === null ? `${path} is missing, which may have held` : where
  const mend = config.masterKeys ? 'List it too (KEYHOOK_MASTER_KEY=<new>,<old>)' : 'Restore it from a backup'
  return (
    `${forgotten}${what} master key ${missing.join(' or ')}, under which the secrets of webhooks are sealed. ${mend}; or, if it is ` +
    `lost for good, delete those webhooks: npx keyhook secrets abandon --key ${missing[0]}`
  )
}
