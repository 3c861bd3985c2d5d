import { Fault } from '../kernel/faults.ts'
import type { OrgId } from '../kernel/ids.ts'

/** An address that nobody has confirmed counts in the organization that invited it, and nowhere else. */
export function checkMayJoin(
  user: { email: string; verified_by: string | null; invited_to: OrgId | null },
  orgId: OrgId,
): void {
  if (user.verified_by !== null || user.invited_to === orgId) return
  throw new Fault('user.unverified', {
    public: `Nobody has confirmed that ${user.email} is the address of this user, who therefore belongs to ${user.invited_to} only. The operator confirms it with "keyhook user verify", or the user logs in at the OpenID issuer.`,
  })
}
