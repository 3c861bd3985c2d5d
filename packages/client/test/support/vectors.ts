import { readFileSync } from 'node:fs'

export type Vector = {
  name: string
  secrets: string[]
  headers: Record<string, string>
  body: string
  repeat?: number
  body_signature_valid: boolean
  standard_signature_valid: boolean
}

const file = new URL('../../../../docs/webhook-vectors.json', import.meta.url)
export const vectors: Vector[] = JSON.parse(readFileSync(file, 'utf8')).vectors

export const bodyOf = (vector: Vector): string => vector.body.repeat(vector.repeat ?? 1)
export const vectorNamed = (name: string): Vector => vectors.find((vector) => vector.name === name)!
