/** The connection string with the password in it. */
export function withPassword(connectionString: string, password: string): string {
  const url = new URL(connectionString)
  url.password = password
  return url.href
}

/** The name under which the certificate of the authority is saved. */
export const authorityFile = 'database-ca.pem'

/**
 * How common programs and frameworks connect. `hasAuthority`: databases have certificates of the installation's own authority,
 * and clients need its file; otherwise they know the authority already.
 */
export function connectionSnippets(address: string, hasAuthority: boolean): { name: string; text: string }[] {
  const url = new URL(address)
  if (hasAuthority) url.searchParams.set('sslrootcert', authorityFile)
  const { hostname: host, port, username: user, password, pathname, search, href } = url
  const database = pathname.slice(1)
  const ssl = hasAuthority ? `{ ca: readFileSync('${authorityFile}', 'utf8') }` : search === '' ? 'false' : 'true'
  const options = [...url.searchParams].map(([name, value]) => `"${name}": "${value}"`).join(', ')
  return [
    { name: 'psql', text: `psql '${href}'` },
    {
      name: 'Node',
      text: lines(
        hasAuthority && "import { readFileSync } from 'node:fs'",
        "import pg from 'pg'",
        '',
        'const pool = new pg.Pool({',
        `  host: '${host}',`,
        `  port: ${port},`,
        `  user: '${user}',`,
        `  password: '${password}',`,
        `  database: '${database}',`,
        `  ssl: ${ssl},`,
        '})',
      ),
    },
    { name: 'Python', text: lines('import psycopg', '', `connection = psycopg.connect("${href}")`) },
    {
      name: 'Django',
      text: lines(
        'DATABASES = {',
        '    "default": {',
        '        "ENGINE": "django.db.backends.postgresql",',
        `        "HOST": "${host}",`,
        `        "PORT": "${port}",`,
        `        "NAME": "${database}",`,
        `        "USER": "${user}",`,
        `        "PASSWORD": "${password}",`,
        options !== '' && `        "OPTIONS": {${options}},`,
        '    }',
        '}',
      ),
    },
    { name: 'Rails', text: lines('# config/database.yml', 'production:', '  adapter: postgresql', `  url: "${href}"`) },
    {
      name: 'Spring',
      text: lines(
        `spring.datasource.url=jdbc:postgresql://${host}:${port}/${database}${search}`,
        `spring.datasource.username=${user}`,
        `spring.datasource.password=${password}`,
      ),
    },
    { name: 'Go', text: `conn, err := pgx.Connect(ctx, "${href}")` },
  ]
}

const lines = (...texts: (string | false)[]): string => texts.filter((text) => text !== false).join('\n')
