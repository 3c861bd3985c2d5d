// Asks for the account as several parts of one process do at once, and prints what each of them got.
import { accountFor } from '../../../src/postgres/account.ts'

const found = await Promise.all([1, 2].map(() => accountFor(undefined)))
process.stdout.write(JSON.stringify(found))
