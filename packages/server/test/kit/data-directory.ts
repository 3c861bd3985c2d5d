export { removeDataDirectory } from '../../src/postgres/data-directory.ts'
