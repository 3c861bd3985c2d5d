import type { CustomEventType } from '../../domain/event-types.ts'
import type { Route } from '../route.ts'
import { createOpenApi } from './openapi.ts'

/**
 * The OpenAPI document as text, with the event types that are declared at the moment of the request. It is made again only when
 * they have changed.
 */
export function createServedDocument(deps: {
  routes: readonly Route[]
  serviceName: string
  /** Declared now; and all names that were ever declared. */
  readEventTypes(): Promise<{ custom: readonly CustomEventType[]; everyName: readonly string[] }>
}): () => Promise<string> {
  let made: { of: string; text: string } | null = null
  return async () => {
    const { custom, everyName } = await deps.readEventTypes()
    const of = JSON.stringify([custom, everyName])
    if (made?.of !== of) {
      const current = new Set(custom.map(({ name }) => name))
      const removedTypes = everyName.filter((name) => !current.has(name))
      made = { of, text: JSON.stringify(createOpenApi(deps.routes, { ...deps, custom, removedTypes })) }
    }
    return made.text
  }
}
