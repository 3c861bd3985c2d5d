/** Of PostgreSQL and its tools. Not the caller's: PGDATA, LC_* or LD_PRELOAD would change what they do, and ours may hold the master key. */
export const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' }
