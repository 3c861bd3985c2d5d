import { inMegabytes } from './units.ts'

/** The message is for the owner of the database, the cause is for the log. `permanent`: a retry would fail again. */
export class StepFailure extends Error {
  readonly permanent: boolean
  constructor(reason: string, options: { cause?: unknown; permanent?: boolean } = {}) {
    super(reason, { cause: options.cause })
    this.name = 'StepFailure'
    this.permanent = options.permanent ?? false
  }
}

/** Its server does not run now, for example because it starts. */
export class NotRunning extends StepFailure {
  constructor() {
    super('The database is not running.')
    this.name = 'NotRunning'
  }
}

export class DamagedArchive extends StepFailure {
  constructor(detail: string, cause?: unknown) {
    super(`The archive is damaged: ${detail}.`, { cause, permanent: true })
    this.name = 'DamagedArchive'
  }
}

/** For a backup or a restore: as much as a database may have before it is stopped. */
export const tooLarge = (bytesMax: number): StepFailure =>
  new StepFailure(`Its files have more than ${inMegabytes(bytesMax)}, which is beyond the storage limit.`, {
    permanent: true,
  })
