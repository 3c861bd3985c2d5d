/** The connection string with the password in it. */
export function withPassword(connectionString: string, password: string): string {
  const url = new URL(connectionString)
  url.password = password
  return url.href
}

/** How common programs and frameworks connect. */
export function connectionSnippets(url: string): { name: string; text: string }[] {
  const { hostname, port, username, password, pathname } = new URL(url)
  const database = pathname.slice(1)
  return [
    { name: 'psql', text: `psql '${url}'` },
    { name: 'Node', text: `import pg from 'pg'\n\nconst pool = new pg.Pool({ connectionString: '${url}' })` },
    { name: 'Prisma', text: `# .env\nDATABASE_URL="${url}"` },
    {
      name: 'Django',
      text: `DATABASES = {\n    "default": {\n        "ENGINE": "django.db.backends.postgresql",\n        "HOST": "${hostname}",\n        "PORT": "${port}",\n        "NAME": "${database}",\n        "USER": "${username}",\n        "PASSWORD": "${password}",\n    }\n}`,
    },
    { name: 'Rails', text: `# config/database.yml\nproduction:\n  url: ${url}` },
    {
      name: 'Spring',
      text: `spring.datasource.url=jdbc:postgresql://${hostname}:${port}/${database}\nspring.datasource.username=${username}\nspring.datasource.password=${password}`,
    },
    { name: 'Go', text: `conn, err := pgx.Connect(ctx, "${url}")` },
  ]
}
