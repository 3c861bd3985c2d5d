/** Whoever has asked for one gives it back, also when it goes before it was given any. */
export type Place = { readonly isGiven: boolean; readonly given: Promise<void>; giveBack(): void }

/** So many at a time. The others wait here, in the order in which they came. */
type Places = { areTaken(): boolean; waiting(): number; ask(): Place }

export function createPlaces(max: number): Places {
  let free = max
  const line = new Set<() => void>()
  return {
    areTaken: () => free === 0,
    waiting: () => line.size,
    ask() {
      const { promise: given, resolve } = Promise.withResolvers<void>()
      const place = { isGiven: false, given, giveBack }
      function give(): void {
        place.isGiven = true
        resolve()
      }
      function giveBack(): void {
        if (line.delete(give)) return
        const [next] = line
        if (next === undefined) free += 1
        else {
          line.delete(next)
          next()
        }
      }
      if (free > 0) {
        free -= 1
        give()
      } else line.add(give)
      return place
    },
  }
}
