import type { TSchema } from 'typebox'

/** A part of the OpenAPI document. */
export type Json = { [key: string]: unknown }

/**
 * Where a part of the interface comes from: the published interface shows it, or it was chosen by a numbered decision in
 * docs/decisions. Operations and schemas of the OpenAPI document have this. A part of them has it only where it differs.
 */
export type Basis = { 'x-basis': 'specified' } | Chosen
export type Chosen = { 'x-basis': 'chosen'; 'x-decision': number }

/** A detail that the published interface leaves open, such as the maximum length of a field that it shows. */
export type Choice = Chosen & { description: string }

/** The keywords of this module; validators ignore them. */
export const basisMarks = ['x-basis', 'x-decision', 'x-chosen']

export const specified: Basis = { 'x-basis': 'specified' }
export const chosen = (decision: number): Chosen => ({ 'x-basis': 'chosen', 'x-decision': decision })
export const choice = (decision: number, description: string): Choice => ({ description, ...chosen(decision) })

/** Adds choices to those that the schema has. */
export const withChoices = <T extends TSchema>(schema: T, ...choices: Choice[]): T => {
  if (choices.length === 0) return schema
  const { 'x-chosen': own = [] } = schema as { 'x-chosen'?: readonly Choice[] }
  return Object.assign(schema, { 'x-chosen': [...own, ...choices] })
}

/** Gives a part of a schema another basis than the schema has, and choices. */
export const mark = <T extends TSchema>(basis: Basis, schema: T, ...choices: Choice[]): T =>
  Object.assign(withChoices(schema, ...choices), basis)
