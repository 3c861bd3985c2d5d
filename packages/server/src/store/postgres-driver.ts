import type postgresDriver from 'postgres'
import { importMended } from '../kernel/mend-library.ts'
import { lostConnections } from './driver-mends/lost-connections.ts'
import { pace } from './driver-mends/pace.ts'
import { wholeAnswers } from './driver-mends/whole-answers.ts'

/*
 * The driver, mended while it is loaded. What postgres 3.4.9 does when a connection or a prepared statement is lost would end the
 * process, stop deliveries for good or give somebody another's answer, and none of it can be caught from outside. What a release
 * has of these can go.
 */
const mends = [...lostConnections, ...wholeAnswers, ...pace]

export const postgres: typeof postgresDriver = (await importMended(mends, () => import('postgres'))).default
