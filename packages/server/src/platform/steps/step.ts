import { channel } from 'node:diagnostics_channel'

const steps = channel('keyhook.platform.step')

/**
 * Says on a diagnostics channel that a step begins. Tracing tools listen there; so do the tests that end the process at
 * every one of these points and count what is left. Nobody listening costs nothing.
 */
export function step(name: string, id: string): void {
  if (steps.hasSubscribers) steps.publish({ name, id })
}
