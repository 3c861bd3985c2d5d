import type { TokenForm } from '../../../src/login/access-token.ts'
import { standardForm } from '../../../src/login/access-token.ts'

/*
 * Access and ID tokens as the providers document and issue them without further configuration. Ids and keys are invented; the
 * claims and their types are as they are sent. Times are added when a test signs them.
 */

type Token = { header: { typ?: string }; claims: Record<string, unknown> }

export type Provider = {
  name: string
  issuer: string
  audience: string
  form: TokenForm
  /** What the settings make of it. */
  subject: string
  verifiedEmail: string | null
  access: Token
  id: Token
}

const jwt = { typ: 'JWT' }
const form: TokenForm = { ...standardForm, type: 'JWT' }

const keycloak: Provider = {
  name: 'Keycloak',
  issuer: 'https://login.example.com/realms/acme',
  audience: 'account',
  form: { ...form, clients: ['shop'] },
  subject: '36fa0f91-f94d-4a0c-afed-6b7d952e47da',
  verifiedEmail: 'ada@example.com',
  access: {
    header: jwt,
    claims: {
      jti: 'd58f5dc8-fd8f-462b-8a19-716f8f83985b',
      aud: 'account',
      sub: '36fa0f91-f94d-4a0c-afed-6b7d952e47da',
      typ: 'Bearer',
      azp: 'shop',
      sid: '2a88c258-f73a-4103-b862-e1fbd8f4e04e',
      acr: '1',
      'allowed-origins': ['https://shop.example.com'],
      realm_access: { roles: ['offline_access', 'default-roles-acme', 'uma_authorization'] },
      resource_access: { account: { roles: ['manage-account', 'view-profile'] } },
      scope: 'openid email profile',
      email_verified: true,
      preferred_username: 'ada',
      email: 'ada@example.com',
    },
  },
  id: {
    header: jwt,
    claims: {
      jti: 'a0c8ee53-4f1d-4c0e-9a5c-56c7d1a3d3aa',
      aud: 'account',
      sub: '36fa0f91-f94d-4a0c-afed-6b7d952e47da',
      typ: 'ID',
      azp: 'shop',
      at_hash: 'Qy3Jv0f0H2n7Ej8A1wSxyg',
      email_verified: true,
      email: 'ada@example.com',
    },
  },
}

const auth0: Provider = {
  name: 'Auth0',
  issuer: 'https://acme.eu.auth0.com/',
  audience: 'https://keyhook.example.com',
  form: {
    ...form,
    emailClaim: 'https://keyhook.example.com/email',
    emailVerifiedClaim: 'https://keyhook.example.com/email_verified',
  },
  subject: 'auth0|64f1c2a9d3e4b5a6c7d8e9f0',
  verifiedEmail: 'ada@example.com',
  access: {
    header: jwt,
    claims: {
      sub: 'auth0|64f1c2a9d3e4b5a6c7d8e9f0',
      aud: ['https://keyhook.example.com', 'https://acme.eu.auth0.com/userinfo'],
      scope: 'openid profile email',
      azp: 'Yh3Kq0fPzT7mC1xWb5nJ8sVdRu2LgAe4',
      // Added by an action of the tenant: without one there is no address in an access token.
      'https://keyhook.example.com/email': 'ada@example.com',
      'https://keyhook.example.com/email_verified': true,
    },
  },
  id: {
    header: jwt,
    claims: {
      sub: 'auth0|64f1c2a9d3e4b5a6c7d8e9f0',
      aud: 'https://keyhook.example.com',
      azp: 'Yh3Kq0fPzT7mC1xWb5nJ8sVdRu2LgAe4',
      nonce: 'n-0S6_WzA2Mj',
      email: 'ada@example.com',
      email_verified: true,
    },
  },
}

const tenant = '8f2f3a52-6f0f-4a0b-9d4d-0a4f0a4f2b11'
const api = '11111111-2222-3333-4444-555555555555'

const entra2: Provider = {
  name: 'Entra, v2.0',
  issuer: `https://login.microsoftonline.com/${tenant}/v2.0`,
  audience: api,
  form: { ...form, emailVerifiedClaim: 'xms_edov' },
  subject: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ',
  verifiedEmail: 'ada@example.com',
  access: {
    header: jwt,
    claims: {
      aud: api,
      aio: 'AWQAm/8TAAAA',
      azp: '99999999-8888-7777-6666-555555555555',
      azpacr: '0',
      name: 'Ada',
      oid: '690222be-ff1a-4d56-abd1-7e4f7d38e474',
      preferred_username: 'ada@example.com',
      rh: '0.AXkA',
      scp: 'access_as_user',
      sub: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ',
      tid: tenant,
      uti: 'fqiBqXLPj0eQa82S-IYFAA',
      ver: '2.0',
      // Optional claims that the application has to ask for.
      email: 'ada@example.com',
      xms_edov: true,
    },
  },
  id: {
    header: jwt,
    claims: {
      aud: api,
      nonce: '678910',
      oid: '690222be-ff1a-4d56-abd1-7e4f7d38e474',
      sub: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ',
      azp: api,
      tid: tenant,
      ver: '2.0',
    },
  },
}

const entra1: Provider = {
  ...entra2,
  name: 'Entra, v1.0',
  issuer: `https://sts.windows.net/${tenant}/`,
  audience: `api://${api}`,
  form,
  // Without `xms_edov` nobody vouches for the address.
  verifiedEmail: null,
  access: {
    header: jwt,
    claims: {
      aud: `api://${api}`,
      acr: '1',
      amr: ['pwd'],
      appid: '99999999-8888-7777-6666-555555555555',
      appidacr: '0',
      email: 'ada@example.com',
      oid: '690222be-ff1a-4d56-abd1-7e4f7d38e474',
      scp: 'access_as_user',
      sub: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ',
      tid: tenant,
      unique_name: 'ada@example.com',
      upn: 'ada@example.com',
      uti: 'fqiBqXLPj0eQa82S-IYFAA',
      ver: '1.0',
    },
  },
}

const zitadel: Provider = {
  name: 'Zitadel',
  issuer: 'https://acme.zitadel.cloud',
  audience: '259242039378444290',
  form,
  subject: '259241944654282754',
  // Zitadel has no address in access tokens.
  verifiedEmail: null,
  access: {
    header: jwt,
    claims: {
      aud: ['259254020357488642@shop', '259242039378444290'],
      azp: '259254020357488642@shop',
      jti: 'V2_259254409320529922-at_259254409320595458',
      sub: '259241944654282754',
    },
  },
  id: {
    header: jwt,
    claims: {
      aud: ['259254020357488642@shop', '259242039378444290'],
      azp: '259254020357488642@shop',
      amr: ['pwd'],
      at_hash: 'U9O9ZnvVJ4rzZkX0GgMPBw',
      auth_time: 1_767_000_000,
      sub: '259241944654282754',
    },
  },
}

export const providers = [keycloak, auth0, entra2, entra1, zitadel]
