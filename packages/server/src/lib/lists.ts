/**
 * Removes one element. Arrays hold what is in flight because V8 keeps removed entries of old Maps and Sets until a major GC: of
 * finished attempts, five of eight were still in memory.
 */
export function takeOut<T>(list: T[], one: T): void {
  const at = list.indexOf(one)
  if (at >= 0) list.splice(at, 1)
}
