import type { Database } from '../db/database.ts'
import type { SessionId, UserId } from '../kernel/ids.ts'

/** Expired codes are deleted here: nobody else looks for them. */
export const insertCode = async (
  db: Database,
  code: { hash: Buffer; sessionId: SessionId; challenge: Buffer; ttlSeconds: number },
): Promise<void> => {
  await db`
    with expired as (delete from keyhook.console_codes where expires_at < now())
    insert into keyhook.console_codes (code_hash, session_id, challenge, expires_at)
    values (${code.hash}, ${code.sessionId}, ${code.challenge}, now() + make_interval(secs => ${code.ttlSeconds}))`
}

/** Deletes the code, so that it works once at most. Null if it is used, expired or unknown, or its session has ended. */
export const takeCode = async (
  db: Database,
  hash: Buffer,
): Promise<{ session_id: SessionId; user_id: UserId; challenge: Buffer } | null> => {
  const [row] = await db<{ session_id: SessionId; user_id: UserId; challenge: Buffer }[]>`
    with code as (
      delete from keyhook.console_codes where code_hash = ${hash} returning session_id, challenge, expires_at
    )
    select c.session_id, s.user_id, c.challenge
    from code c
    join keyhook.console_sessions s on s.id = c.session_id and s.expires_at > now()
    join keyhook.users u on u.id = s.user_id and u.removed_at is null
    where c.expires_at > now()`
  return row ?? null
}
