import type { TSchema } from 'typebox'

/**
 * Where a piece of the interface comes from: the published text shows it, or the text leaves it open and a numbered
 * decision in docs/decisions fills the gap. The OpenAPI document carries this on every operation, field and header.
 */
export type Basis = { 'x-basis': 'specified' } | { 'x-basis': 'chosen'; 'x-decision': number }

export const specified: Basis = { 'x-basis': 'specified' }
export const chosen = (decision: number): Basis => ({ 'x-basis': 'chosen', 'x-decision': decision })

export const mark = <T extends TSchema>(basis: Basis, schema: T): T => Object.assign(schema, basis)
