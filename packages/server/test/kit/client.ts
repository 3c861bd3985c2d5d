export type Reply<T = unknown> = { status: number; headers: Headers; text: string; body: T }

/** A plain HTTP client: tests see what is on the wire. */
export async function call<T = unknown>(
  url: string,
  options: {
    method?: string
    token?: string | null
    body?: unknown
    raw?: string | Uint8Array
    headers?: Record<string, string>
  } = {},
): Promise<Reply<T>> {
  const sent = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body))
  const response = await fetch(url, {
    method: options.method ?? (sent === undefined ? 'GET' : 'POST'),
    headers: {
      ...(options.token && { authorization: `Bearer ${options.token}` }),
      ...(sent !== undefined && { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(sent !== undefined && { body: sent as string }),
  })
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('content-type') ?? '')
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: (isJson && text !== '' ? JSON.parse(text) : null) as T,
  }
}
