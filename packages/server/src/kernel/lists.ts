/*
 * Lists of what comes and goes many times a second, where the order counts or there are few. Not maps or sets: a table of theirs
 * that is full points on to the one that takes its place, so one that has grown old keeps all that came after it, and whatever
 * was in those, until everything is looked through.
 */
export function takeOut<T>(list: T[], one: T): void {
  const at = list.indexOf(one)
  if (at >= 0) list.splice(at, 1)
}
