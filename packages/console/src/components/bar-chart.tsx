import '../styles/charts.css'
import { scaleBand, scaleLinear } from 'd3-scale'
import { type RefObject, useLayoutEffect, useRef, useState } from 'react'

export type Bar = {
  at: string
  label: string
  parts: readonly { tone: 'success' | 'danger' | 'accent'; value: number }[]
}

const height = 132
const axis = 18
/** Room for the numbers at the right. */
const gutter = 52

/** Stacked bars over time. The numbers are also in a table that only screen readers show. */
export function BarChart({
  title,
  bars,
  names,
  format,
}: {
  title: string
  bars: readonly Bar[]
  names: readonly string[]
  format: (value: number) => string
}) {
  const [hovered, setHovered] = useState<number | null>(null)
  const sums = bars.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0))
  const box = useRef<HTMLDivElement>(null)
  const width = Math.max(useWidth(box) - gutter, 1)
  const x = scaleBand<number>()
    .domain(bars.map((_, index) => index))
    .range([0, width])
    .paddingInner(0.25)
  const y = scaleLinear()
    .domain([0, Math.max(...sums, 1)])
    .nice(3)
    .range([height - axis, 4])
  const shown = hovered === null ? undefined : bars[hovered]
  return (
    <figure className="chart">
      <figcaption className="row row-wrap">
        <strong className="grow">{title}</strong>
        <span className="small muted number" aria-hidden="true">
          {shown
            ? `${shown.label}: ${shown.parts.map(({ value }, index) => `${format(value)} ${names[index]}`).join(', ')}`
            : ''}
        </span>
      </figcaption>
      <div ref={box} className="chart-box">
        <svg width={width + gutter} height={height} role="img" aria-label={title} onMouseLeave={() => setHovered(null)}>
          {y.ticks(3).map((tick) => (
            <g key={tick} className="chart-grid">
              <line x1="0" x2={width} y1={y(tick)} y2={y(tick)} />
              <text x={width + 8} y={y(tick) + 4}>
                {format(tick)}
              </text>
            </g>
          ))}
          {bars.map((bar, index) => (
            // biome-ignore lint/a11y/noStaticElementInteractions: hovering only repeats what the table says
            <g
              key={bar.at}
              onMouseEnter={() => setHovered(index)}
              className={hovered === index ? 'chart-hovered' : undefined}
            >
              <rect className="chart-target" x={x(index)} y="0" width={x.step()} height={height - axis} />
              <Stack bar={bar} x={x(index) ?? 0} width={x.bandwidth()} y={y} />
            </g>
          ))}
          <text className="chart-label" x="0" y={height - 2}>
            {bars[0]?.label}
          </text>
          <text className="chart-label" x={width} y={height - 2} textAnchor="end">
            {bars.at(-1)?.label}
          </text>
        </svg>
      </div>
      <table className="visually-hidden">
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
              {bar.parts.map(({ value }, index) => (
                <td key={names[index]}>{format(value)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  )
}

function Stack({ bar, x, width: bandwidth, y }: { bar: Bar; x: number; width: number; y: (value: number) => number }) {
  let below = 0
  return bar.parts.map(({ tone, value }) => {
    const [bottom, top] = [y(below), y(below + value)]
    below += value
    // A few failures among thousands still have to be seen.
    const size = value === 0 ? 0 : Math.max(bottom - top, 1.5)
    return (
      <rect key={tone} className={`chart-${tone}`} x={x} y={bottom - size} width={bandwidth} height={size} rx="1" />
    )
  })
}

/** In pixels, so that texts keep their size on every screen. */
function useWidth(box: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0)
  useLayoutEffect(() => {
    const element = box.current
    if (element === null) return
    setWidth(element.clientWidth)
    const observer = new ResizeObserver(() => setWidth(element.clientWidth))
    observer.observe(element)
    return () => observer.disconnect()
  }, [box])
  return width
}
