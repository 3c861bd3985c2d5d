/** Runs work that shares a name one after the other, in order of arrival. */
type InTurn<Name> = <T>(names: readonly Name[], work: () => Promise<T>) => Promise<T>

/** `endsWaiting`: work that waits fails with such an error as well, because it would wait as long as the work before it did. */
export function createTurns<Name>(endsWaiting: (error: unknown) => boolean): InTurn<Name> {
  const lastOf = new Map<Name, Promise<unknown>>()
  const passOn = (error: unknown) => {
    if (endsWaiting(error)) throw error
  }

  return (names, work) => {
    const before = names.flatMap((name) => lastOf.get(name)?.catch(passOn) ?? [])
    const result = before.length === 0 ? work() : Promise.all(before).then(work)
    const forget = () => {
      for (const name of names) if (lastOf.get(name) === result) lastOf.delete(name)
    }
    for (const name of names) lastOf.set(name, result)
    result.then(forget, forget)
    return result
  }
}
