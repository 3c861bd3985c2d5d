import '../styles/charts.css'
import { scaleBand, scaleLinear } from 'd3-scale'
import { type ReactNode, type RefObject, useLayoutEffect, useRef, useState } from 'react'
import { timeTicks } from './time-axis.ts'

type Tone = 'success' | 'danger' | 'accent' | 'accent-soft'

export type Bar = {
  /** Its start, in milliseconds since 1970. */
  at: number
  label: string
  /** None where nothing was measured. */
  parts: readonly { tone: Tone; value: number }[]
}

const notMeasured = 'not measured'

const axis = 18
/** Room for the numbers at the right. */
const gutter = 52
/** About; so that a date near the right edge is not cut. */
const characterWidth = 6

/** Stacked bars over time. The numbers are also in a table that only screen readers show. */
export function BarChart({
  title,
  bars,
  names,
  format,
  legend,
  overlaid = false,
  onSelect,
}: {
  title: string
  bars: readonly Bar[]
  names: readonly string[]
  format: (value: number) => string
  /** At the end of the heading, while nothing is pointed at. */
  legend?: ReactNode
  /** Each part starts at 0, the largest behind: for values that do not add up. */
  overlaid?: boolean
  /** A click on a bar; offer the same with the keyboard elsewhere. */
  onSelect?: (bar: Bar) => void
}) {
  const [hovered, setHovered] = useState<number | null>(null)
  const sums = bars.map(({ parts }) =>
    overlaid ? Math.max(...parts.map(({ value }) => value)) : parts.reduce((sum, { value }) => sum + value, 0),
  )
  const box = useRef<HTMLDivElement>(null)
  const size = useSize(box)
  // Before the box is measured, nothing of it is seen.
  const width = Math.max(size.width - gutter, 1)
  const height = Math.max(size.height, 2 * axis)
  const isEmpty = sums.every((sum) => sum === 0)
  const x = scaleBand<number>()
    .domain(bars.map((_, index) => index))
    .range([0, width])
    .paddingInner(0.25)
  const y = scaleLinear()
    // With less than three, an axis of counts would have halves.
    .domain([0, Math.max(...sums, 3)])
    .nice(3)
    .range([height - axis, 6])
  const shown = hovered === null ? undefined : bars[hovered]
  const textOf = ({ parts }: Bar) =>
    parts.map(({ value }, index) => `${format(value)} ${names[index]}`).join(', ') || notMeasured
  return (
    <figure className={onSelect ? 'chart chart-selectable' : 'chart'}>
      <figcaption className="row row-wrap">
        <strong className="grow">{title}</strong>
        {shown ? (
          <span className="small muted number" aria-hidden="true">
            {`${shown.label}: ${textOf(shown)}`}
          </span>
        ) : (
          legend
        )}
      </figcaption>
      <div ref={box} className="chart-box">
        {isEmpty ? (
          <p className="chart-nothing">No attempts in this time</p>
        ) : (
          <svg
            width={width + gutter}
            height={height}
            role="img"
            aria-label={title}
            onMouseLeave={() => setHovered(null)}
          >
            {y.ticks(3).map((tick) => (
              <g key={tick} className="chart-grid">
                <line x1="0" x2={width} y1={y(tick)} y2={y(tick)} />
                <text x={width + 8} y={y(tick) + 4}>
                  {format(tick)}
                </text>
              </g>
            ))}
            {bars.map((bar, index) => (
              // biome-ignore lint/a11y/noStaticElementInteractions: hovering only repeats what the table says, and a click what filters offer
              <g
                key={bar.at}
                onMouseEnter={() => setHovered(index)}
                onClick={onSelect && (() => onSelect(bar))}
                className={hovered === index ? 'chart-hovered' : undefined}
              >
                <rect className="chart-target" x={x(index)} y="0" width={x.step()} height={height - axis} />
                <Stack bar={bar} overlaid={overlaid} x={x(index) ?? 0} width={x.bandwidth()} y={y} />
              </g>
            ))}
            {timeTicks(
              bars.map(({ at }) => at),
              width,
            ).map(({ index, text }) => (
              <g key={index} className="chart-tick">
                <line x1={x(index)} x2={x(index)} y1={height - axis} y2={height - axis + 4} />
                <text x={Math.min(x(index) ?? 0, width + gutter - text.length * characterWidth)} y={height - 2}>
                  {text}
                </text>
              </g>
            ))}
          </svg>
        )}
      </div>
      {/* Not on the table itself, which would keep its height and make the page longer. */}
      <div className="visually-hidden">
        <table>
          <caption>{title}</caption>
          <thead>
            <tr>
              <th>Time</th>
              {names.map((name) => (
                <th key={name}>{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {bars.map((bar) => (
              <tr key={bar.at}>
                <th>{bar.label}</th>
                {bar.parts.length === 0 && <td colSpan={names.length}>{notMeasured}</td>}
                {bar.parts.map(({ value }, index) => (
                  <td key={names[index]}>{format(value)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  )
}

type StackProps = { bar: Bar; overlaid: boolean; x: number; width: number; y: (value: number) => number }

function Stack({ bar, overlaid, x, width: bandwidth, y }: StackProps) {
  let below = 0
  return bar.parts.map(({ tone, value }) => {
    const [bottom, top] = [y(below), y(below + value)]
    if (!overlaid) below += value
    // A few failures among thousands still have to be seen.
    const size = value === 0 ? 0 : Math.max(bottom - top, 1.5)
    return (
      <rect key={tone} className={`chart-${tone}`} x={x} y={bottom - size} width={bandwidth} height={size} rx="1" />
    )
  })
}

/** In pixels, so that texts keep their size on every screen. */
function useSize(box: RefObject<HTMLElement | null>): { width: number; height: number } {
  const [size, setSize] = useState({ width: 0, height: 0 })
  useLayoutEffect(() => {
    const element = box.current
    if (element === null) return
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight })
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    return () => observer.disconnect()
  }, [box])
  return size
}
