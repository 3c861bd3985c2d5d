export { createOutput, type Output, UsageError } from '../terminal/output.ts'
