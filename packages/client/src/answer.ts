import { EventsExpiredError, type FieldError, KeyhookError, networkError } from './errors.ts'

/** Throws unless the answer is a success of Keyhook's. */
export async function checkAnswer(response: Response): Promise<void> {
  // A browser hides the status of a redirect that it was told not to follow.
  if (response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400))
    throw redirected(response)
  if (response.ok) return
  throw problemError(response, await readText(response))
}

export const readText = (response: Response): Promise<string> =>
  response.text().catch((cause) => {
    throw networkError(cause)
  })

/** The token goes to the configured address and nowhere else, so redirects are not followed. */
const redirected = (response: Response): KeyhookError =>
  new KeyhookError({
    code: 'client.unexpected_response',
    message: `The address redirects${place(response)}. Redirects are not followed: set "url" to the address of the server itself.`,
    status: response.status || undefined,
  })

const place = (response: Response): string => {
  const location = response.headers.get('location')
  return location === null ? '' : ` to ${location}`
}

function problemError(response: Response, text: string): KeyhookError {
  const { status } = response
  const problem = readProblem(response, text)
  const retryAfter = readRetryAfter(response.headers.get('retry-after'))
  if (problem === null) {
    return new KeyhookError({
      code: 'client.unexpected_response',
      message: `The answer has status ${status} and is not one of Keyhook's. Is "url" right, and is a proxy in between?`,
      status,
      retryAfter,
    })
  }
  const { code, title, detail, errors, request_id: requestId } = problem
  const ErrorClass = code === 'events.expired' ? EventsExpiredError : KeyhookError
  return new ErrorClass({
    code: code as string,
    message: String(detail ?? title ?? code),
    status,
    errors: Array.isArray(errors) ? (errors as FieldError[]) : undefined,
    requestId: typeof requestId === 'string' ? requestId : undefined,
    retryAfter,
    problem,
  })
}

function readProblem(response: Response, text: string): Record<string, unknown> | null {
  if (!/\bjson\b/.test(response.headers.get('content-type') ?? '')) return null
  try {
    const value = JSON.parse(text)
    return typeof value?.code === 'string' ? value : null
  } catch {
    return null
  }
}

/** Seconds, from either form of the header. */
function readRetryAfter(header: string | null): number | undefined {
  if (header === null) return undefined
  if (/^\d+$/.test(header)) return Number(header)
  const seconds = (Date.parse(header) - Date.now()) / 1_000
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds)
}
