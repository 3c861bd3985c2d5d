import type { TSchema } from 'typebox'

/** A part of the OpenAPI document. */
export type Json = { [key: string]: unknown }

/** A detail that the published interface leaves open, such as the maximum length of a field that it shows. */
export type Choice = { description: string; 'x-basis': 'chosen'; 'x-decision': number }

/**
 * Where a part of the interface comes from: the published interface shows it, or it was chosen by a numbered decision in
 * docs/decisions. The OpenAPI document has this on every operation, field and header.
 */
export type Basis = ({ 'x-basis': 'specified' } | { 'x-basis': 'chosen'; 'x-decision': number }) & {
  'x-chosen'?: readonly Choice[]
}

/** The keywords of this module; validators ignore them. */
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

/** Adds a basis and choices to those that the schema has. */
export const mark = <T extends TSchema>(basis: Basis, schema: T, ...choices: Choice[]): T => {
  const { 'x-chosen': own = [] } = schema as { 'x-chosen'?: readonly Choice[] }
  return Object.assign(schema, withChoices(basis, [...own, ...choices]))
}
