import { channel } from 'node:diagnostics_channel'

const steps = channel('keyhook.platform.step')

/** Publishes the start of a step for tracing tools, and for the tests that kill the process at every one of them. */
export function traceStep(name: string, id: string): void {
  if (steps.hasSubscribers) steps.publish({ name, id })
}
