/** A mistake of the person at the keyboard: one clear line, exit code 2. */
export class Mistake extends Error {}

export type Output = {
  /** The result: words for people, or exactly one line of JSON. */
  result(json: object, words: string): void
  /** Progress, for people only, out of the way of what a script reads. */
  note(text: string): void
}

export const createOutput = (json: boolean): Output => ({
  result: (value, words) => process.stdout.write(`${json ? JSON.stringify(value) : words}\n`),
  note: (text) => {
    if (!json) process.stderr.write(`${text}\n`)
  },
})
