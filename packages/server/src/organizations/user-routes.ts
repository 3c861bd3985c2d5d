import Type from 'typebox'
import type { Database } from '../db/database.ts'
import { chosen, mark } from '../http/basis.ts'
import { listById, pageQuery } from '../http/lists.ts'
import { operatorRoute, type Route } from '../http/route.ts'
import { closed, component, createdAt, id, label, verified } from '../http/schemas.ts'
import { notFound } from '../lib/faults.ts'
import { isoTime } from '../lib/time.ts'
import { createUser, ensureNoUser, verifyUser } from './rules.ts'
import { findUser, pageOfUsers, type UserRow } from './users.ts'

const here = chosen(95)
const verification = chosen(163)
const path = '/operator/v1/users'

const subject = () => label('The `sub` of this person at your OpenID issuer.', 'auth0|64f1c2a9')

const newUser = component('NewUser', here, {
  email: {
    ...label('E-mail address. No two users have the same.', 'hank@example.com'),
    format: 'email-address',
  },
  name: Type.Optional(label('Full name.', 'Hank')),
  subject: Type.Optional(subject()),
})

const user = component('User', here, {
  id: id('usr', 'The user.'),
  email: Type.String({ description: 'E-mail address.', examples: ['hank@example.com'] }),
  name: Type.Union([Type.String(), Type.Null()], { description: 'Full name, if it was given.' }),
  subject: Type.Union([Type.String(), Type.Null()], {
    description: 'The `sub` that logs in as this user, if one does.',
  }),
  verified: mark(verification, verified()),
  created_at: createdAt(),
})

const userQuery = closed({
  ...pageQuery,
  email: Type.Optional(
    Type.String({ maxLength: 255, description: 'Only users with this address, in any case of A to Z.' }),
  ),
})

const userOf = ({ id, email, name, subject, verified_by, created_at }: UserRow) => ({
  id,
  email,
  name,
  subject,
  verified: verified_by !== null,
  created_at: isoTime(created_at),
})

/** `keyhook user` over HTTP. */
export function operatorUserRoutes({ db }: { db: Database }): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path,
      audit: null,
      basis: here,
      summary: 'Create a user',
      description: 'A person, who belongs to no organization yet.',
      body: newUser,
      faults: ['user.email_taken', 'user.subject_taken'],
      success: { status: 201, description: 'The user.', schema: user },
      async handler({ body, once }) {
        const request = { email: body.email, name: body.name ?? null, subject: body.subject ?? null }
        return db.begin((tx) =>
          once(tx, async () => {
            const row = await createUser(tx, request)
            return { status: 201, location: `${path}/${row.id}`, body: userOf(row) }
          }),
        )
      },
    }),
    operatorRoute({
      method: 'GET',
      path,
      audit: null,
      basis: here,
      summary: 'List users',
      description:
        'Every user of the installation, or those with an address: one verified user at most, and one unverified user in each organization that invited it.',
      query: userQuery,
      success: { status: 200, description: 'The users.', schema: Type.Array(user) },
      async handler({ query }) {
        return listById('usr', userOf, (request) => pageOfUsers(db, query.email ?? null, request))
      },
    }),
    operatorRoute({
      method: 'GET',
      path: `${path}/:userId`,
      audit: null,
      basis: here,
      summary: 'Read a user',
      description: 'One user who has not been removed.',
      success: { status: 200, description: 'The user.', schema: user },
      async handler({ params: { userId } }) {
        const row = await findUser(db, userId)
        if (row === null) throw notFound(`there is no user ${userId}`)
        return { status: 200, body: userOf(row) }
      },
    }),
    operatorRoute({
      method: 'POST',
      path: `${path}/:userId/verify`,
      audit: 'user.verified',
      basis: verification,
      summary: 'Confirm the address of a user',
      description:
        'For a user who joined with an invitation link, once you know that the address is theirs. The user may then belong to other organizations too. A second call is answered like the first.',
      faults: ['user.email_taken'],
      success: { status: 200, description: 'The user.', schema: user },
      async handler({ actor, params: { userId } }) {
        return { status: 200, body: userOf(await verifyUser(db, actor, { userId })) }
      },
    }),
    operatorRoute({
      method: 'DELETE',
      path: `${path}/:userId`,
      audit: 'user.removed',
      basis: here,
      summary: 'Remove a user',
      description:
        'Removes the user from every organization. Their keys and login tokens stop at once; their webhooks and databases stay. A second call is answered like the first.',
      success: { status: 204, description: 'There is no such user any more.' },
      async handler({ actor, params: { userId } }) {
        await ensureNoUser(db, actor, { userId })
        return { status: 204 }
      },
    }),
  ]
}
