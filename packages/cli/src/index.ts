/*
 * What the server's program needs: the commands for customers, and what commands are made of. Nothing here loads the client, so that
 * the help stays fast.
 */
export { customerCommands } from './customer-commands.ts'
export { createOutput, OperationFailed, type Output, UsageError } from './output.ts'
export {
  type CommandEntry,
  commandsFor,
  createPrograms,
  KeyhookCommand,
  type Programs,
  runCommandLine,
  runProcess,
} from './program.ts'
export { exitOnSignal, stopSignal } from './stop-signal.ts'
export { printable, styled } from './style.ts'
export { type Column, tableLines } from './table.ts'
