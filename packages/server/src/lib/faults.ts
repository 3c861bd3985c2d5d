import { type FaultCode, faultCatalogue } from './fault-catalogue.ts'

/** Where in the request a rule was broken: a JSON pointer into the body, or the name of a query parameter. */
export type FieldError = { pointer: string; detail: string } | { parameter: string; detail: string }

/** An expected error. `public` is for the caller; `internal` goes to the log and never leaves the process. */
export class Fault extends Error {
  readonly code: FaultCode
  readonly public: string
  readonly internal: string | undefined
  readonly errors: readonly FieldError[] | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Further members of the problem. */
  readonly members: Readonly<Record<string, number>>

  constructor(
    code: FaultCode,
    text: {
      public: string
      internal?: string
      errors?: readonly FieldError[]
      headers?: Record<string, string>
      members?: Record<string, number>
      cause?: unknown
    },
  ) {
    super(text.internal ?? text.public, { cause: text.cause })
    this.name = 'Fault'
    this.code = code
    this.public = text.public
    this.internal = text.internal
    this.errors = text.errors
    this.headers = text.headers ?? {}
    this.members = text.members ?? {}
  }

  get status(): number {
    return faultCatalogue[this.code].status
  }
}

/** The text for the caller is made of the request's path alone (`nameMissing`): what is stored must not change it. */
export class NotFound extends Fault {
  constructor(internal: string) {
    super('not_found', { public: 'There is nothing at this path.', internal })
  }
}

/** The one answer for what does not exist and for what belongs to another organization, so that ids cannot be probed. */
export const notFound = (internal: string): Fault => new NotFound(internal)

export const invalid = (errors: readonly [FieldError, ...FieldError[]]): Fault =>
  new Fault('request.invalid', { public: errors.map(describe).join('; '), errors })

const describe = (error: FieldError): string =>
  `${'pointer' in error ? error.pointer.slice(1).replaceAll('/', '.') || 'body' : error.parameter}: ${error.detail}`
