import { setFlagsFromString } from 'node:v8'

/**
 * How far the heap may grow over what was alive in it, in percent, before all of it is looked through again. Left to itself V8
 * takes up to four times as much while there is much to do, most of it dead: a dispatcher with a million deliveries waiting took
 * 360 to 420 MB, and takes 275.
 */
const growthPercent = 100

/** Before there is much on it. */
export function keepHeapSmall(): void {
  setFlagsFromString(`--heap-growing-percent=${growthPercent}`)
  // V8 learns what lives long, and puts it among the old at once. Of what a dispatcher handles it learns wrong: a statement's
  // record that is old from birth keeps all that hangs on it until everything is looked through, which was every second.
  setFlagsFromString('--no-allocation-site-pretenuring')
}
