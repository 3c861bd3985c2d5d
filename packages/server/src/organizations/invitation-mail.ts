import type { InvitationId } from '../lib/ids.ts'
import type { Compose } from '../mail/sender.ts'
import { invitationMail } from '../mail/templates/links.ts'
import { setInvitationLink } from './sql.ts'

/** Nothing for one that was accepted or withdrawn. */
export const composeInvitation: Compose = async (tx, { org_id: orgId, data }, { secret, hash, server, url }) => {
  const found = await setInvitationLink(tx, orgId!, data.invitation as InvitationId, hash)
  return found && invitationMail({ ...found, server }, url(`/invitation#${secret}`))
}
