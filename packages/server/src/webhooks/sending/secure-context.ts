import { constants } from 'node:crypto'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'

/** Whom deliveries trust: the usual authorities, and those of the operator. */
export const createDeliveryContext = (extraCa: string | null): SecureContext =>
  createSecureContext({
    ca: [...getCACertificates('default'), ...(extraCa === null ? [] : [extraCa])],
    // TLS 1.2 lets a receiver start the handshake anew, as often as it likes and at our expense.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  })
