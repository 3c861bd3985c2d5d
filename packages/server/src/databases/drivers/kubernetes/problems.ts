import { StepFailure } from '../../../lib/step-failure.ts'

/** The customer reads these; the operator reads the cause, which says what to do. */
const texts = {
  unreachable: 'The Kubernetes cluster of the databases cannot be reached now.',
  rejected: 'The Kubernetes cluster rejected the database.',
  noRoom: 'The Kubernetes cluster has no room for it.',
  notAllowed: 'Keyhook may not do this in the Kubernetes cluster.',
  notInstalled: 'The Kubernetes cluster is not prepared for databases.',
}

export const unreachable = (cause: unknown): StepFailure => new StepFailure(texts.unreachable, { cause })

/** An answer of the Kubernetes API that is not a success. */
export class ApiProblem extends StepFailure {
  readonly status: number
  /** The one resource does not exist, while its kind is known. */
  readonly isMissing: boolean
  /** A retry may succeed, without anybody changing anything. */
  readonly isPassing: boolean

  constructor(request: string, status: number, body: string) {
    const { reason, message, details } = statusIn(body)
    const isKindMissing = status === 404 && details?.name === undefined
    const detail = `${request} answered ${status}: ${message ?? body.slice(0, 500)}`
    // Server-side apply answers 500 where it should answer 400.
    const isRejected = status === 400 || status === 422 || /field not declared in schema/.test(message ?? '')
    const isPassing =
      !isRejected && (status === 429 || status >= 500 || status === 410 || (status === 409 && reason === 'Conflict'))
    const { text, advice } = meaningOf(status, message ?? '', { isKindMissing, isRejected })
    super(text, {
      cause: new Error(advice === null ? detail : `${detail} ${advice}`),
      permanent: isRejected,
    })
    this.name = 'ApiProblem'
    this.status = status
    this.isMissing = status === 404 && !isKindMissing
    this.isPassing = isPassing
  }
}

function meaningOf(
  status: number,
  message: string,
  { isKindMissing, isRejected }: { isKindMissing: boolean; isRejected: boolean },
): { text: string; advice: string | null } {
  if (isKindMissing) {
    return {
      text: texts.notInstalled,
      advice: 'Install CloudNativePG and the Barman Cloud plugin (docs/deploying.md).',
    }
  }
  if (status === 403 && /exceeded quota|maximum .* usage/.test(message)) {
    return { text: texts.noRoom, advice: 'Raise the ResourceQuota or LimitRange of the namespace.' }
  }
  if (status === 401 || status === 403) {
    return { text: texts.notAllowed, advice: 'Give its service account the role in docs/deploying.md.' }
  }
  if (isRejected) {
    return { text: texts.rejected, advice: 'The installed CloudNativePG may be another version (docs/deploying.md).' }
  }
  return { text: texts.unreachable, advice: null }
}

type Status = { reason?: string; message?: string; details?: { name?: string } }

function statusIn(body: string): Status {
  try {
    return JSON.parse(body) as Status
  } catch {
    return {}
  }
}

type Event = { reason?: string; message?: string; type?: string }

/** What Kubernetes' own events mean for the owner of a database, first match first. */
const meanings: readonly (readonly [RegExp, string])[] = [
  [/exceeded quota/, texts.noRoom],
  [/FailedScheduling|OutOfcpu|OutOfmemory|Evicted/, texts.noRoom],
  [/ProvisioningFailed|FailedBinding|FailedMount|FailedAttachVolume/, 'Its storage could not be provided.'],
  [/ErrImagePull|ImagePullBackOff|InspectFailed|Failed to pull image/, 'The image of PostgreSQL could not be loaded.'],
  [/Expected empty archive/, 'The store of backups has data under its name already.'],
  [/BackOff|FailedCreate|Unhealthy/, 'PostgreSQL did not start.'],
]

/** The reason of a database that did not become ready, from its phase and its events. */
export function explainNotReady(phase: string | undefined, events: readonly Event[]): { text: string; detail: string } {
  const seen = events.map(({ reason, message }) => `${reason}: ${message}`)
  const detail = [phase ?? 'no phase yet', ...seen].join('; ')
  const found = meanings.find(([pattern]) => pattern.test(detail))
  return { text: found?.[1] ?? 'It did not become ready in time.', detail }
}
