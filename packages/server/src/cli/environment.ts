import { type Config, readConfig } from '../config.ts'

/** Reads the settings from the environment, with some replaced by the command. */
export type Environment = (overrides?: Readonly<Record<string, string>>) => Config

export const environment: Environment = (overrides) => readConfig({ ...process.env, ...overrides })
