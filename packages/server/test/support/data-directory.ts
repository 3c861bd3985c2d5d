export { removeDataDirectory } from '../../src/embedded/remove-data-directory.ts'
