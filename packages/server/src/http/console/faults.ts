import { Fault } from '../../kernel/faults.ts'

// RFC 9110, 15.5.2: a 401 names a scheme. There is no registered one for cookies.
const headers = { 'www-authenticate': 'Cookie realm="keyhook console"' }

export const sessionRequired = (text = 'Nobody is signed in here, or the session has ended.'): Fault =>
  new Fault('console.session_required', { public: text, headers })

export const linkInvalid = (text: string): Fault => new Fault('console.link_invalid', { public: text })
