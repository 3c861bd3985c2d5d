import Type from 'typebox'
import { type FaultCode, faultCatalogue } from '../../kernel/faults.ts'
import { chosen, mark } from '../basis.ts'

const here = chosen(4)

/** The body of every answer that is not a success (RFC 9457). */
export const problemSchema = Type.Object(
  {
    type: mark(here, Type.String({ description: 'A URN that ends in the code.' })),
    title: mark(here, Type.String({ description: 'The same for every problem of this code.' })),
    status: mark(here, Type.Integer({ description: 'The status of the answer.' })),
    code: mark(
      here,
      Type.Enum(Object.keys(faultCatalogue) as FaultCode[], { description: 'Stable: test for this one.' }),
    ),
    detail: mark(here, Type.String({ description: 'What happened this time, and what to do.' })),
    errors: Type.Optional(
      mark(
        here,
        Type.Array(
          Type.Object(
            {
              pointer: Type.Optional(mark(here, Type.String({ description: 'JSON pointer into the body.' }))),
              parameter: Type.Optional(mark(here, Type.String({ description: 'Name of the query parameter.' }))),
              detail: mark(here, Type.String({ description: 'What is wrong with it.' })),
            },
            { additionalProperties: false },
          ),
          { description: 'Which fields broke a rule.' },
        ),
      ),
    ),
    request_id: Type.Optional(mark(here, Type.String({ description: 'On a 500: what to quote to the operator.' }))),
  },
  { additionalProperties: false },
)
