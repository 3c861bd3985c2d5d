import { printable, styled } from '../style.ts'
import type { Received } from './receiver.ts'

/** One delivery for people: time, type, verdict and answer, then the body. */
export function receivedText(received: Received): string {
  const answer = received.answer === null ? 'no answer' : `answered ${received.answer}`
  const head = `${styled('dim', received.at.slice(11, 19))}  ${styled('bold', printable(received.event))}`
  if ('refused' in received) return `${head}  ${styled('red', `REFUSED: ${received.refused}`)}  ${answer}`
  return `${head}  ${verdict(received)}  ${answer}\n${pretty(received.body)}`
}

function verdict(received: Exclude<Received, { refused: string }>): string {
  if (received.signature === 'good') return styled('green', 'signature verified')
  if (received.signature === 'bad') return styled('red', `SIGNATURE WRONG: ${received.why}`)
  return styled('yellow', `signature not checked${received.why === null ? '' : `: ${received.why}`}`)
}

/** Any process on the machine can send to us: only JSON is laid out, and control characters are escaped. */
function pretty(body: string): string {
  try {
    return indented(JSON.stringify(JSON.parse(body), null, 2))
  } catch {
    return indented(body)
  }
}

const indented = (text: string): string =>
  text
    .split('\n')
    .map((line) => `  ${printable(line)}`)
    .join('\n')
