/** Wrong input: one clear line, exit code 2. */
export class UsageError extends Error {}

/** There is no token to send. A script tells it from wrong input by the exit code. */
export class NotLoggedIn extends Error {}

/** The operation ended as failed, which the server reports with a reason. */
export class OperationFailed extends Error {}

export type Output = {
  /** The result: text for people, or exactly one line of JSON. */
  result(json: object, text: string): void
  /** Many results: a line for each, or one JSON array. Pages are written as they are read. */
  list<Row extends object>(pages: AsyncIterable<Row[]>, lines: (page: Row[]) => string[]): Promise<void>
  /** Progress for people, on standard error. */
  note(text: string): void
}

export const createOutput = ({ json }: { json?: boolean | undefined }): Output => ({
  result: (value, text) => process.stdout.write(`${json ? JSON.stringify(value) : text}\n`),
  async list(pages, lines) {
    let separator = '['
    for await (const page of pages) {
      if (!json) process.stdout.write(`${lines(page).join('\n')}\n`)
      else process.stdout.write(separator + page.map((row) => JSON.stringify(row)).join(','))
      separator = ','
    }
    if (json) process.stdout.write(separator === '[' ? '[]\n' : ']\n')
  },
  note: (text) => {
    if (!json) process.stderr.write(`${text}\n`)
  },
})

/** On standard error also with --json: people need it to go on, and a secret is printed nowhere else. */
export const note = (text: string): void => void process.stderr.write(`${text}\n`)
