import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { challengeSeconds } from './passkey-challenges.ts'
import type { Credential } from './passkey-sql.ts'
import type { RelyingParty } from './relying-party.ts'

/** EdDSA, ES256 and RS256, which every browser and every Node of ours knows. */
const algorithms = [-8, -7, -257]

/** Loaded with the first passkey: it takes longer than the rest of a process that has none. */
const library = () => import('@simplewebauthn/server')

type Person = { user_id: string; email: string | null; name: string | null }
type Known = { credential_id: string; transports: string[] }

/**
 * A passkey is all that somebody signs in with, so the authenticator has to ask for a PIN or a finger (`userVerification`), and to keep
 * the passkey itself (`residentKey`): nobody types a name. Who made the authenticator is not asked.
 */
export async function newPasskeyOptions(party: RelyingParty, person: Person, known: readonly Known[]) {
  const { generateRegistrationOptions } = await library()
  return generateRegistrationOptions({
    rpName: 'Keyhook',
    rpID: party.id,
    userID: Buffer.from(person.user_id),
    userName: person.email ?? person.user_id,
    userDisplayName: person.name ?? person.email ?? person.user_id,
    timeout: challengeSeconds * 1_000,
    attestationType: 'none',
    excludeCredentials: known.map(({ credential_id: id, transports }) => ({ id, transports })),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    supportedAlgorithmIDs: algorithms,
  })
}

/** Without a list of passkeys: it would tell which ones somebody has. */
export async function signInOptions(party: RelyingParty) {
  const { generateAuthenticationOptions } = await library()
  return generateAuthenticationOptions({
    rpID: party.id,
    timeout: challengeSeconds * 1_000,
    userVerification: 'required',
  })
}

type Expected = { party: RelyingParty; challenge: string }

export type Attestation = {
  id: string
  rawId: string
  type: 'public-key'
  response: { clientDataJSON: string; attestationObject: string; transports?: string[] }
}

/** What to keep of a new passkey. Throws for one that is not an answer to what we asked. */
export async function checkAttestation(answer: Attestation, { party, challenge }: Expected) {
  const { verifyRegistrationResponse } = await library()
  await refuseCertificates(answer)
  const { verified, registrationInfo } = await verifyRegistrationResponse({
    response: { ...answer, clientExtensionResults: {} } as RegistrationResponseJSON,
    expectedChallenge: challenge,
    expectedOrigin: party.origin,
    expectedRPID: party.id,
    supportedAlgorithmIDs: algorithms,
  })
  if (!verified) throw new Error('the attestation is not verified')
  const { id, publicKey, counter } = registrationInfo.credential
  const transports = answer.response.transports ?? []
  return { credentialId: id, publicKey: Buffer.from(publicKey), signCount: counter, transports }
}

/**
 * We ask for no attestation. A certificate in it may name an address for its revocation list, which the library would fetch. A browser
 * leaves at most a signature by the passkey itself ("packed" without a certificate).
 */
async function refuseCertificates({ response }: Attestation): Promise<void> {
  const { decodeAttestationObject, isoBase64URL } = await import('@simplewebauthn/server/helpers')
  const attestation = decodeAttestationObject(isoBase64URL.toBuffer(response.attestationObject))
  const format = attestation.get('fmt')
  const isPlain = format === 'none' || (format === 'packed' && attestation.get('attStmt').get('x5c') === undefined)
  if (!isPlain) throw new Error(`an attestation of the form ${format} was not asked for`)
}

export type Assertion = {
  id: string
  rawId: string
  type: 'public-key'
  response: { clientDataJSON: string; authenticatorData: string; signature: string; userHandle: string }
}

/** The count of the authenticator. Throws for an answer that is not of this passkey, or whose count went back. */
export async function checkAssertion(
  answer: Assertion,
  { party, challenge, found }: Expected & { found: Credential },
): Promise<number> {
  const { verifyAuthenticationResponse } = await library()
  // Web Authentication, 7.2, step 6: the passkey says whose it is.
  if (Buffer.from(answer.response.userHandle, 'base64url').toString() !== found.user_id)
    throw new Error('the passkey names another user')
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response: { ...answer, clientExtensionResults: {} } as AuthenticationResponseJSON,
    expectedChallenge: challenge,
    expectedOrigin: party.origin,
    expectedRPID: party.id,
    credential: {
      id: answer.id,
      publicKey: new Uint8Array(found.public_key),
      counter: found.sign_count,
      transports: found.transports,
    },
  })
  if (!verified) throw new Error('the signature does not fit')
  return authenticationInfo.newCounter
}
