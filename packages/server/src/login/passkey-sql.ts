import type { Database, Transaction } from '../db/database.ts'
import type { PasskeyId, UserId } from '../lib/ids.ts'

export type PasskeyRow = { id: PasskeyId; rp_id: string; name: string; created_at: Date; last_used_at: Date | null }

export const listPasskeys = (db: Database, userId: UserId) => db<PasskeyRow[]>`
  select id, rp_id, name, created_at, last_used_at from keyhook.passkeys where user_id = ${userId} order by id desc`

/** For the authenticator, which has at most one passkey of a person. */
export const listCredentials = (db: Database, userId: UserId, rpId: string) =>
  db<{ credential_id: string; transports: string[] }[]>`
    select credential_id, transports from keyhook.passkeys where user_id = ${userId} and rp_id = ${rpId}`

export const countPasskeys = async (tx: Transaction, userId: UserId): Promise<number> => {
  const { count } = await tx<{ count: number }[]>`
    select count(*)::int as count from keyhook.passkeys where user_id = ${userId}`.one()
  return count
}

export type NewPasskey = {
  id: PasskeyId
  userId: UserId
  rpId: string
  credentialId: string
  publicKey: Buffer
  signCount: number
  transports: string[]
  name: string
}

export const insertPasskey = (tx: Transaction, passkey: NewPasskey) =>
  tx<PasskeyRow[]>`
    insert into keyhook.passkeys (id, user_id, rp_id, credential_id, public_key, sign_count, transports, name)
    values (${passkey.id}, ${passkey.userId}, ${passkey.rpId}, ${passkey.credentialId}, ${passkey.publicKey},
      ${passkey.signCount}, ${passkey.transports}, ${passkey.name})
    returning id, rp_id, name, created_at, last_used_at`.one()

/** Whatever the person has: a session that was opened with the first link may not ask again. */
export const stopOffering = async (db: Database | Transaction, userId: UserId): Promise<void> => {
  await db`update keyhook.console_sessions set offers_passkey = false where user_id = ${userId}`
}

export const renamePasskey = (db: Database, userId: UserId, id: PasskeyId, name: string) =>
  db<PasskeyRow[]>`
    update keyhook.passkeys set name = ${name} where user_id = ${userId} and id = ${id}
    returning id, rp_id, name, created_at, last_used_at`.first()

export const deletePasskey = (tx: Transaction, userId: UserId, id: PasskeyId) =>
  tx<{ name: string }[]>`
    delete from keyhook.passkeys where user_id = ${userId} and id = ${id} returning name`.first()

export type Credential = {
  id: PasskeyId
  user_id: UserId
  public_key: Buffer
  sign_count: number
  transports: string[]
}

/** Null if it was removed, or its user was. */
export const findCredential = (db: Database, rpId: string, credentialId: string) =>
  db<Credential[]>`
    select p.id, p.user_id, p.public_key, p.sign_count::float8 as sign_count, p.transports
    from keyhook.passkeys p
    join keyhook.users u on u.id = p.user_id and u.removed_at is null and not u.is_service
    where p.rp_id = ${rpId} and p.credential_id = ${credentialId}`.first()

/** False if the passkey or its user was removed since it was read, or another answer with this count came first. */
export const recordUse = (tx: Transaction, id: PasskeyId, signCount: number) =>
  tx`
    update keyhook.passkeys p set sign_count = ${signCount}, last_used_at = now()
    from keyhook.users u
    where p.id = ${id} and u.id = p.user_id and u.removed_at is null and not u.is_service
      and (p.sign_count < ${signCount} or (p.sign_count = 0 and ${signCount}::bigint = 0))`.exists()

/** False if the challenge was answered before. Those that have expired are deleted here: nobody else looks for them. */
export const recordAnswer = (tx: Transaction, hash: Buffer, expiresAt: Date) =>
  tx`
    with expired as (delete from keyhook.passkey_answers where expires_at < now())
    insert into keyhook.passkey_answers (challenge_hash, expires_at) values (${hash}, ${expiresAt})
    on conflict do nothing`.exists()
