import type { Executor } from '../../db/database.ts'
import type { Sealed } from '../../kernel/master-keys.ts'

/** The one authority of the installation. `key` is sealed in the context `sealContext`. */
export type AuthorityRow = { certificate: string; key: Sealed }

export const sealContext = 'certificate_authority'

export const findAuthority = async (db: Executor): Promise<AuthorityRow | null> => {
  const [row] = await db<{ certificate: string; key_id: string; key_box: Buffer }[]>`
    select certificate, key_id, key_box from keyhook.certificate_authority`
  return row === undefined ? null : { certificate: row.certificate, key: { keyId: row.key_id, box: row.key_box } }
}

/** Keeps an authority that exists: of two nodes that start at once the first wins. */
export const insertAuthority = async (db: Executor, { certificate, key }: AuthorityRow): Promise<void> => {
  await db`
    insert into keyhook.certificate_authority (certificate, key_id, key_box)
    values (${certificate}, ${key.keyId}, ${key.box}) on conflict do nothing`
}

/** Only if it was not replaced in between. */
export const resealAuthority = async (db: Executor, from: Sealed, to: Sealed): Promise<boolean> => {
  const rows = await db`
    update keyhook.certificate_authority set key_id = ${to.keyId}, key_box = ${to.box} where key_box = ${from.box}`
  return rows.count > 0
}

/** For a master key that is lost for good: the next node that starts creates another authority. */
export const deleteAuthorityUnder = async (db: Executor, keyId: string): Promise<boolean> => {
  const rows = await db`delete from keyhook.certificate_authority where key_id = ${keyId}`
  return rows.count > 0
}
