import type { TSchema } from 'typebox'

/** A part of the OpenAPI document. */
export type Json = { [key: string]: unknown }

/** Something that was left open inside of a thing, such as the longest value of a field that the text shows. */
export type Choice = { description: string; 'x-basis': 'chosen'; 'x-decision': number }

/**
 * Where a piece of the interface comes from: the published text shows it, or the text leaves it open and a numbered
 * decision in docs/decisions fills the gap. The OpenAPI document carries this on every operation, field and header.
 */
export type Basis = ({ 'x-basis': 'specified' } | { 'x-basis': 'chosen'; 'x-decision': number }) & {
  'x-chosen'?: readonly Choice[]
}

/** The names under which a schema carries all this; to a validator they mean nothing. */
export const basisMarks = ['x-basis', 'x-decision', 'x-chosen']

export const specified: Basis = { 'x-basis': 'specified' }
export const chosen = (decision: number): Basis => ({ 'x-basis': 'chosen', 'x-decision': decision })
export const choice = (decision: number, description: string): Choice => ({
  description,
  'x-basis': 'chosen',
  'x-decision': decision,
})

export const withChoices = (basis: Basis, choices: readonly Choice[]): Basis =>
  choices.length === 0 ? basis : { ...basis, 'x-chosen': [...(basis['x-chosen'] ?? []), ...choices] }

/** Adds to what the schema says of itself already. */
export const mark = <T extends TSchema>(basis: Basis, schema: T, ...choices: Choice[]): T => {
  const { 'x-chosen': own = [] } = schema as { 'x-chosen'?: readonly Choice[] }
  return Object.assign(schema, withChoices(basis, [...own, ...choices]))
}
