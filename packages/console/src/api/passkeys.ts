import {
  browserSupportsWebAuthn,
  type PublicKeyCredentialCreationOptionsJSON,
  type PublicKeyCredentialRequestOptionsJSON,
  startAuthentication,
  startRegistration,
} from '@simplewebauthn/browser'
import { queryOptions } from '@tanstack/react-query'
import { call, sendPasskey } from './session.ts'

export type Passkey = { id: string; name: string; host: string; created_at: string; last_used_at: string | null }

export const passkeysQuery = queryOptions({
  queryKey: ['passkeys'],
  queryFn: () => call<{ passkeys: Passkey[]; suggested_name: string }>('GET', '/passkeys'),
})

export const hasPasskeys = browserSupportsWebAuthn

/** Asks the person to choose a passkey, and signs in with it. */
export async function signInWithPasskey(): Promise<void> {
  const optionsJSON = await call<PublicKeyCredentialRequestOptionsJSON>('POST', '/passkey-challenge')
  await sendPasskey(await startAuthentication({ optionsJSON }).catch(inWords))
}

export async function addPasskey(name: string): Promise<void> {
  const optionsJSON = await call<PublicKeyCredentialCreationOptionsJSON>('POST', '/passkey-options')
  const answer = await startRegistration({ optionsJSON }).catch(inWords)
  await call('POST', '/passkeys', { name, answer })
}

export const renamePasskey = (id: string, name: string): Promise<void> => call('PATCH', `/passkeys/${id}`, { name })
export const removePasskey = (id: string): Promise<void> => call('DELETE', `/passkeys/${id}`)
export const declinePasskey = (): Promise<void> => call('DELETE', '/passkey-offer')

/** Browsers give an error for developers, and the same for a cancelled prompt and one that nobody answered. */
function inWords(error: Error): never {
  const texts: Record<string, string> = {
    NotAllowedError: 'The browser got no passkey: the prompt was cancelled, or took too long. Try again.',
    InvalidStateError: 'This device has a passkey of yours already.',
  }
  throw new Error(texts[error.name] ?? error.message, { cause: error })
}
