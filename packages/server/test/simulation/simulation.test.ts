import { expect, test } from 'vitest'
import { type PlantedBug, runSeed } from './run.ts'

/*
 * The real dispatcher in a world where everything else is simulated: time, PostgreSQL, receivers, and faults of them. A run is its
 * seed: SIMULATION_SEED=123 runs that one alone and prints every step, SIMULATION_SEEDS=20000 runs many.
 */
const only = process.env.SIMULATION_SEED
const seeds = Number(process.env.SIMULATION_SEEDS ?? 250)
const first = Number(process.env.SIMULATION_FIRST ?? 1)

async function run(seed: number, plant?: PlantedBug) {
  try {
    return await runSeed(seed, { ...(plant && { plant }), ...(only && { trace: (line: string) => console.log(line) }) })
  } catch (error) {
    throw new Error(`SIMULATION_SEED=${seed}: ${(error as Error).message}`, { cause: error })
  }
}

test('whatever goes wrong, every delivery is finished, in order, and every request has its record', {
  timeout: 60_000 + seeds * 100,
}, async () => {
  const numbers = only === undefined ? Array.from({ length: seeds }, (_, i) => first + i) : [Number(only)]
  let requests = 0
  for (const seed of numbers) requests += (await run(seed)).requests
  expect(requests).toBeGreaterThan(numbers.length)
})
