import Type from 'typebox'
import type { Database } from '../../db/database.ts'
import { notFound } from '../../kernel/faults.ts'
import { attemptIdOf, attemptUuid, isId } from '../../kernel/ids.ts'
import { findLane, type HistoryRow, listAttempts } from '../../store/delivery/history.ts'
import { choice, specified } from '../basis.ts'
import { onlyWholeListQuery } from '../lists.ts'
import { type Route, route } from '../route.ts'
import { deliveryRecord, deliveryRecordOf } from './delivery-schemas.ts'

export function deliveryRoutes(deps: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/v1/organizations/:orgId/webhooks/:webhookId/deliveries',
      needs: 'deliveries:read',
      audit: null,
      basis: specified,
      choices: [
        choice(18, 'An attempt is recorded before its request leaves.'),
        choice(45, 'Attempts are kept for ever, unless the operator has set a number of days.'),
      ],
      tag: 'Webhooks',
      summary: 'List delivery attempts',
      description: 'Every attempt to deliver an event to this webhook, with its status and the response.',
      query: onlyWholeListQuery,
      faults: ['not_found'],
      success: { status: 200, description: 'The attempts.', schema: Type.Array(deliveryRecord) },
      async handler({ orgId, params: { webhookId: id } }) {
        const lane = await findLane(deps.db, orgId, id)
        if (lane === null) throw notFound(`${id} is not in ${orgId}`)
        return {
          status: 200,
          list: {
            page: ({ before, limit }) => {
              const uuid = before !== null && isId('dlv', before) ? attemptUuid(before) : null
              return listAttempts(deps.db, orgId, lane.laneId, { before: uuid, limit })
            },
            keyOf: (row: HistoryRow) => attemptIdOf(row.id),
            // As it was requested: the URL parser normalises the path.
            record: (row: HistoryRow) => deliveryRecordOf(row, new URL(row.earlier_url ?? lane.url).href),
            isKey: (text) => isId('dlv', text),
            rowsAtOnce: 50,
          },
        }
      },
    }),
  ]
}
