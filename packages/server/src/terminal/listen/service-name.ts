import { OperationFailed } from '../explain-client-error.ts'

/** The word in `X-<service>-Event`, which the operator can set. The OpenAPI document names the headers of a delivery. */
export async function readServiceName(url: string): Promise<string> {
  const address = `${url.replace(/\/+$/, '')}/openapi.json`
  const { webhooks = {} } = await readDocument(address)
  for (const { post } of Object.values(webhooks)) {
    for (const { name } of post?.parameters ?? []) {
      const match = /^X-(.+)-Event$/.exec(name)
      if (match !== null) return match[1]!
    }
  }
  throw new OperationFailed(`${address} does not name the headers of a delivery. Is this Keyhook?`)
}

type Document = { webhooks?: Record<string, { post?: { parameters?: { name: string }[] } }> }

/** A wrong name would be worse than none: the program would refuse every event. */
async function readDocument(address: string): Promise<Document> {
  try {
    const response = await fetch(address, { redirect: 'manual' })
    if (!response.ok) throw new Error(`status ${response.status}`)
    return (await response.json()) as Document
  } catch (error) {
    throw new OperationFailed(`${address} cannot be read: ${(error as Error).message}. Try again.`)
  }
}
