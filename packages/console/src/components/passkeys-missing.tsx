import { hasPasskeys } from '../api/passkeys.ts'
import type { PasskeySupport } from '../api/session.ts'

/** Null if this page in this browser can have passkeys. */
export const whyMissing = ({ missing }: PasskeySupport): string | null =>
  missing ?? (hasPasskeys() ? null : 'This browser has no passkeys.')

/** Says what is missing for passkeys, and where there are some. */
export function PasskeysMissing({ support }: { support: PasskeySupport }) {
  return (
    <p className="muted small break">
      {whyMissing(support)} {support.elsewhere && <a href={support.elsewhere}>Open {support.elsewhere}</a>}
    </p>
  )
}
