import { type Content, plain, quotedForStrangers } from './content.ts'

/* Mails with a link that somebody asked for. Their readers may be strangers. */

export const signInMinutes = 15
export const confirmationHours = 24

const whyAnyway = 'If you did not expect this mail, ignore it: without the link nothing happens.'

export const signInMail = (server: string, url: string): Content => ({
  subject: 'Your link to sign in',
  paragraphs: [`Somebody asked for a link to sign in at ${server} with this address.`],
  link: {
    label: 'Sign in',
    url,
    note: `The link works once, for ${signInMinutes} minutes. Give it to nobody: whoever opens it is signed in as you.`,
  },
  footer: whyAnyway,
})

export const confirmationMail = (server: string, url: string): Content => ({
  subject: 'Confirm your address',
  paragraphs: [`Confirm that this is your address at ${server}.`],
  link: {
    label: 'Confirm the address',
    url,
    note: `The link works once, for ${confirmationHours} hours, and only in the browser where you are signed in.`,
  },
  footer: whyAnyway,
})

type Invited = { organization: string; inviter: string | null; role: string; server: string }

export const invitationMail = ({ organization, inviter, role, server }: Invited, url: string): Content => ({
  subject: `Invitation to ${quotedForStrangers(organization, 'an organization')}`,
  paragraphs: [
    `${inviter === null ? 'Somebody' : plain(inviter, 100)} invites you to join ${quotedForStrangers(organization, 'an organization')} at ${server} as ${role}.`,
  ],
  link: { label: 'Open the invitation', url, note: 'The link works once, for seven days after the invitation.' },
  footer: whyAnyway,
})

export const testMail = (server: string): Content => ({
  subject: 'Keyhook can send mail',
  paragraphs: [`This mail was sent by "keyhook mail test" for ${server}. Nothing else follows from it.`],
  link: null,
  footer: 'The operator of this server asked for this mail.',
})
