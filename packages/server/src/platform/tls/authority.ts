import type { Database } from '../../db/database.ts'
import { type MasterKeys, type Sealed, UnknownMasterKey } from '../../kernel/master-keys.ts'
import { findAuthority, insertAuthority, sealContext } from '../../store/platform/certificate-authority.ts'
import { type Certificate, createAuthority } from './issue-certificate.ts'

/** The authority of the installation, created by the first node that asks. */
export async function openAuthority(db: Database, masterKeys: MasterKeys, now: Date): Promise<Certificate> {
  const found = await findAuthority(db)
  if (found !== null) return { certificate: found.certificate, key: openKey(masterKeys, found.key) }
  const { certificate, key } = await createAuthority(now)
  await insertAuthority(db, { certificate, key: masterKeys.seal(key, sealContext) })
  // Another node may have been faster, and then its authority counts.
  return openAuthority(db, masterKeys, now)
}

/** Never a new authority instead of one that cannot be opened: clients that trust the old one would be locked out. */
function openKey(masterKeys: MasterKeys, sealed: Sealed): string {
  try {
    return masterKeys.open(sealed, sealContext)
  } catch (cause) {
    if (!(cause instanceof UnknownMasterKey)) throw cause
    throw new Error(
      `The certificate authority of the databases is ${cause.message}. List it too (KEYHOOK_MASTER_KEY=<new>,<old>); ` +
        `or, if it is lost for good: npx keyhook secrets abandon --key ${sealed.keyId}`,
      { cause },
    )
  }
}
