const codes = ['ENOSPC', 'EDQUOT', '53100']
const words = /No space left on device|Disk quota exceeded|Check free disk space/

/** Whether something failed because a disk is full: by the code of the system or of PostgreSQL, or by a program's last words. */
export function isForWantOfRoom(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown }
  return codes.includes(String(code)) || words.test(String(message))
}
