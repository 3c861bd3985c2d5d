import type { ErrorObject, ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { runLimited, TookTooLong } from '../kernel/run-limited.ts'

/*
 * JSON Schema (draft 2020-12) of the data of declared event types. Unknown keywords are errors, because they are typing errors
 * more often than not. `format` is an annotation, as the draft says: the regular expressions behind formats can take minutes.
 */
const options = {
  allErrors: true,
  strict: true,
  strictTypes: false,
  strictTuples: false,
  strictRequired: false,
  validateFormats: false,
  logger: false,
} as const

let declaring: Ajv2020 | null = null

/** Checks the schema itself too, and throws an error for an operator to read. */
export function compileNewSchema(schema: object): ValidateFunction {
  declaring ??= new Ajv2020(options)
  return declaring.compile(schema)
}

/** An own instance for each schema, so that one that is no longer used can be collected. */
const compileStored = (schema: string): ValidateFunction =>
  new Ajv2020({ ...options, meta: false, validateSchema: false }).compile(JSON.parse(schema))

/** Patterns and `uniqueItems` can take very long, and nothing else runs meanwhile. */
const checkMsMax = 250

export type DataProblem = ErrorObject | { instancePath: string; reason: string }

/** What is wrong with each of the data. Together they may take a quarter of a second. */
export function checkData(given: readonly { validate: ValidateFunction; data: unknown }[]): DataProblem[][] {
  const problems: DataProblem[][] = given.map(() => [])
  let i = 0
  try {
    runLimited(() => {
      for (; i < given.length; i++) {
        const { validate, data } = given[i]!
        if (!validate(data)) problems[i] = [...validate.errors!]
      }
    }, checkMsMax)
  } catch (error) {
    // A schema that refers to itself without an end overflows the stack.
    if (!(error instanceof TookTooLong || error instanceof RangeError)) throw error
    problems[i] = [{ instancePath: '', reason: 'takes too long to check against the schema of its type' }]
  }
  return problems
}

const compiledMax = 500

/** Validators by the text of their schema, so that a changed schema is never mistaken for the one before. */
export function createSchemaCache(): (schema: string) => ValidateFunction {
  const compiled = new Map<string, ValidateFunction>()
  return (schema) => {
    const known = compiled.get(schema)
    if (known !== undefined) return known
    if (compiled.size >= compiledMax) compiled.delete(compiled.keys().next().value!)
    const validate = compileStored(schema)
    compiled.set(schema, validate)
    return validate
  }
}
