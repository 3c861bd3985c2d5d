export type TokenFacts = {
  kind: 'api_key' | 'login'
  key_prefix: string | null
  user_id: string | null
  expires_at: string | null
}

/** What a token says about itself. Only the server can tell whether it is true, so this is for people alone. */
export function describeToken(token: string): TokenFacts {
  const key = /^([a-z][a-z0-9]{0,9}_[0-9A-Za-z]{8})_[0-9A-Za-z]{32}$/.exec(token)
  if (key !== null) return { kind: 'api_key', key_prefix: key[1]!, user_id: null, expires_at: null }
  const { sub, exp } = claimsOf(token)
  const isTime = typeof exp === 'number' && Math.abs(exp) < 8.64e12
  return {
    kind: 'login',
    key_prefix: null,
    user_id: typeof sub === 'string' ? sub : null,
    expires_at: isTime ? new Date(exp * 1_000).toISOString() : null,
  }
}

function claimsOf(token: string): { sub?: unknown; exp?: unknown } {
  try {
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'))
    return typeof claims === 'object' && claims !== null ? claims : {}
  } catch {
    return {}
  }
}
