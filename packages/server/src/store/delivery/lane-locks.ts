import type { Executor } from '../../db/database.ts'

/*
 * Somebody else may have the lock of a lane, and keep it: a node that froze while it stepped a recovery, an operator who left a
 * session open. Statements about many lanes wait for one only for a moment. Said once more, they pass over what is locked and
 * do the rest: the lanes of others have nothing to do with it.
 */

/** `wait`: for a moment, and then fail (`isLockTimeout`). `pass_over`: leave out what is locked. */
export type WhenLocked = 'wait' | 'pass_over'

/**
 * Longer than a beginning takes to reach the disk, and short beside what others would wait. Its row has to be read before the
 * first lock is asked for, which is when the bound is looked at: join it to what the locks are taken from.
 */
export const boundedWait = (db: Executor) => db`set_config('lock_timeout', '500ms', true)`

export const orPassOver = (db: Executor, whenLocked: WhenLocked) =>
  whenLocked === 'pass_over' ? db`skip locked` : db``
