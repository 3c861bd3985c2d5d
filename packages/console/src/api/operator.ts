import { createOperatorClient } from '@keyhook/client/operator'
import { serverUrl } from '../address.ts'
import { currentToken } from './session.ts'

/** Only works in a session of the operator. */
export const operatorClient = createOperatorClient({ url: serverUrl, token: currentToken, retries: 1 })
