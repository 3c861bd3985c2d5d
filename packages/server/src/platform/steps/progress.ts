const writeMs = 500

export type ProgressWriter = {
  report(bytes: { bytesDone: number; bytesTotal: number }): void
  /** Resolves when nothing is being written any more: the outcome is written after the last step on the way to it. */
  settle(): Promise<void>
}

/** Many small steps forward, a write every half second. A write that fails is one that nobody sees; the next one counts. */
export function createProgressWriter(
  write: (bytes: { bytesDone: number; bytesTotal: number }) => Promise<void>,
): ProgressWriter {
  let last = 0
  let writing: Promise<void> | undefined
  return {
    report(bytes) {
      if (writing !== undefined || Date.now() - last < writeMs) return
      last = Date.now()
      writing = write(bytes)
        .catch(() => {})
        .finally(() => {
          writing = undefined
        })
    },
    async settle() {
      await writing
    },
  }
}
