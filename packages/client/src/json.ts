import { KeyhookError } from './errors.ts'

export function readJson<T>(text: string): T {
  try {
    return JSON.parse(text) as T
  } catch (cause) {
    throw new KeyhookError({
      code: 'client.unexpected_response',
      message: 'The answer is not JSON. Is "url" the address of a Keyhook server?',
      cause,
    })
  }
}
