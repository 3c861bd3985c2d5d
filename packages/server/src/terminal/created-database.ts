import type { Database } from '@keyhook/client'
import { styled } from './style.ts'

export const createdText = (database: Database, password: string): string =>
  [
    database.status === 'available'
      ? `The database ${database.id} (${database.name}) is available.`
      : `The database ${database.id} (${database.name}) is being created. It is ready when "npx keyhook databases show ${database.id}" says available.`,
    'Its password is shown once, so keep it now:',
    '',
    `  ${styled('bold', password)}`,
    '',
    `Connect: npx keyhook databases connect ${database.id}`,
  ].join('\n')
