import { createHash, randomBytes } from 'node:crypto'

type App = { issuer: string; audience: string; redirectUri: string; clientId: string; clientSecret: string }

/** The authorization code flow with PKCE, over HTTP, as a browser and a web application do it together. */
export async function logInWithBrowser(app: App): Promise<{ accessToken: string; idToken: string }> {
  const verifier = randomBytes(32).toString('base64url')
  const code = await authorizationCode(app, createHash('sha256').update(verifier).digest('base64url'))
  const response = await fetch(`${app.issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${app.clientId}:${app.clientSecret}`)}` },
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: app.redirectUri,
      code_verifier: verifier,
      resource: app.audience,
    }),
  })
  const answer = (await response.json()) as { access_token?: string; id_token?: string }
  if (!answer.access_token || !answer.id_token) throw new Error(`no tokens: ${JSON.stringify(answer)}`)
  return { accessToken: answer.access_token, idToken: answer.id_token }
}

async function authorizationCode(app: App, challenge: string): Promise<string> {
  const cookies = new Map<string, string>()
  const query = new URLSearchParams({
    client_id: app.clientId,
    response_type: 'code',
    redirect_uri: app.redirectUri,
    scope: 'openid operator',
    resource: app.audience,
    code_challenge: challenge,
    code_challenge_method: 'S256',
  })
  let url = new URL(`${app.issuer}/auth?${query}`)
  for (let hops = 0; hops < 10; hops += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
      if (value === '') cookies.delete(name!)
      else cookies.set(name!, value!)
    }
    const location = response.headers.get('location')
    if (location === null) throw new Error(`the login stopped at ${url}: ${await response.text()}`)
    url = new URL(location, url)
    const code = url.searchParams.get('code')
    if (code !== null) return code
    if (url.searchParams.has('error')) throw new Error(`the login was refused: ${url}`)
  }
  throw new Error('the login went round in circles')
}
