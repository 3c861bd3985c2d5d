/** Does so many things at a time. The others wait here, in the order in which they came. */
export type Places = <T>(work: () => Promise<T>) => Promise<T>

export function createPlaces(max: number): Places {
  let free = max
  const waiting: (() => void)[] = []
  return async (work) => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => void waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
}
