import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { UsageError } from './output.ts'

/** Whether somebody can answer a question. Questions go to standard error, so that output can be piped. */
export const canAsk = (): boolean => process.stdin.isTTY === true && process.stderr.isTTY === true

/** Asks without showing what is typed. */
export async function askSecret(question: string): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  // The echo is off before the question appears: a token that is pasted at once would be shown otherwise.
  const asked = ask(nowhere, '')
  process.stderr.write(question)
  const answer = await asked
  process.stderr.write('\n')
  return answer
}

async function ask(output: Writable, question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output, terminal: true })
  lines.on('SIGINT', () => {
    process.stderr.write('\n')
    process.exit(130)
  })
  try {
    return (await lines.question(question)).trim()
  } finally {
    lines.close()
  }
}

/** Deletions ask on a terminal, and need --yes anywhere else. */
export async function confirm(what: string, { yes }: { yes?: boolean }): Promise<void> {
  if (yes) return
  if (!canAsk()) throw new UsageError(`${what} Add --yes to confirm this without a terminal.`)
  const answer = await ask(process.stderr, `${what} Continue? [y/N] `)
  if (!/^y(es)?$/i.test(answer)) throw new UsageError('The answer was not "y", so nothing was changed.')
}

/** All of standard input, for secrets that come through a pipe. */
export const readInput = async (): Promise<string> => (await text(process.stdin)).trim()
