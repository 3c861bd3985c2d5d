/** The word in `X-<service>-Event`, which the operator can set. The OpenAPI document names the headers of a delivery. */
export async function readServiceName(url: string): Promise<string> {
  const response = await fetch(`${url.replace(/\/+$/, '')}/openapi.json`, { redirect: 'manual' })
  const { webhooks = {} } = (await response.json()) as { webhooks?: Record<string, Described> }
  for (const { post } of Object.values(webhooks)) {
    for (const { name } of post?.parameters ?? []) {
      const match = /^X-(.+)-Event$/.exec(name)
      if (match !== null) return match[1]!
    }
  }
  return 'Service'
}

type Described = { post?: { parameters?: { name: string }[] } }
