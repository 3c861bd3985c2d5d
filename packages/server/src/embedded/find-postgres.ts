import { resolve } from 'node:path'
import { type Binaries, installedNative, readyBinaries } from './binaries.ts'
import { ownBinaries } from './own-binaries.ts'
import type { Account } from './permissions.ts'

/** Finds the programs for one data directory and the account that runs them. */
export type FindBinaries = (dataDir: string, account: Account | undefined) => Promise<Binaries>

/** The operator's PostgreSQL in `ownBin` (KEYHOOK_POSTGRES_BIN), or else the one that npm installed. */
export async function findPostgres(ownBin: string | null | undefined): Promise<FindBinaries> {
  if (ownBin) {
    const own = await ownBinaries(resolve(ownBin))
    return async () => own
  }
  const native = await installedNative()
  return (dataDir, account) => readyBinaries(native, dataDir, account)
}
