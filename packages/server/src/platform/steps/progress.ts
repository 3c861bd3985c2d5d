const writeMs = 500

export type ProgressWriter = {
  report(bytes: { bytesDone: number; bytesTotal: number }): void
  /** Waits for a write in flight, so that the outcome is written after it. */
  settle(): Promise<void>
}

/** Writes progress at most every half second. A failed write is ignored, because the next one replaces it. */
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
