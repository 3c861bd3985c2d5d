import type { Delivery } from '@keyhook/client'
import { msText } from '../../words/numbers.ts'

type Part = { label: string; start: number; length: number }

/** Where the time of an attempt went. */
export function Waterfall({ timings }: { timings: Delivery['request']['timings'] }) {
  const total = timings.total_ms
  if (total === null || total === 0) return null
  return (
    <section aria-label="Timing">
      <h3>Timing</h3>
      <div className="waterfall">
        {partsOf(timings, total).map(({ label, start, length }) => (
          <div key={label} className="waterfall-row">
            <span className="muted">{label}</span>
            <div className="waterfall-track">
              <svg viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
                <rect x={(start / total) * 1_000} width={Math.max((length / total) * 1_000, 4)} height="8" rx="3" />
              </svg>
            </div>
            <span className="number">{msText(length)}</span>
          </div>
        ))}
        <div className="waterfall-row">
          <strong>Total</strong>
          <span />
          <strong className="number">{msText(total)}</strong>
        </div>
      </div>
    </section>
  )
}

function partsOf(timings: Delivery['request']['timings'], total: number): Part[] {
  const parts: Part[] = []
  let end = 0
  const add = (label: string, length: number | null) => {
    if (length === null) return
    parts.push({ label, start: end, length })
    end += length
  }
  add('DNS', timings.dns_ms)
  add('Connection', timings.connect_ms)
  add('TLS', timings.tls_ms)
  if (timings.first_byte_ms === null) add('No answer', Math.max(total - end, 0))
  else {
    add('Waiting', Math.max(timings.first_byte_ms - end, 0))
    add('Receiving', Math.max(total - end, 0))
  }
  return parts
}
