import Type from 'typebox'
import { type IdPrefix, idPattern } from '../kernel/ids.ts'

/** Schemas that several records share. */
export const id = (prefix: IdPrefix, description: string) => Type.String({ pattern: idPattern(prefix), description })

export const moment = (description: string) => Type.String({ format: 'date-time', description })

export const createdAt = () => moment('When it was made (RFC 3339, UTC).')
