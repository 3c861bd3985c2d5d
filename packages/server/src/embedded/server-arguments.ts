import { port } from './socket-directory.ts'

/** On the command line and not in postgresql.conf, so that a new version of Keyhook can change them. */
const defaults: Readonly<Record<string, string>> = {
  // No TCP: the socket is in a directory that only its owner can enter.
  listen_addresses: '',
  port: String(port),
  unix_socket_permissions: '0700',
  max_connections: '200',
  shared_buffers: '256MB',
  // Compiling a plan costs more than our short queries take.
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  // We open the file and limit its size. Failed statements are reported to us as errors; in this log their text could
  // reveal secrets, and bad requests could fill the disk.
  logging_collector: 'off',
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
  log_line_prefix: '%m [%p] ',
  cluster_name: 'keyhook',
}

export function serverArguments(
  cluster: string,
  socketDirectory: string,
  extra: Readonly<Record<string, string>>,
): string[] {
  const settings = { ...defaults, unix_socket_directories: quoted(socketDirectory), ...extra }
  return ['-D', cluster, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
}

/** The setting is a list: without quotes a comma or a space in the path would split it. */
const quoted = (path: string): string => `"${path.replaceAll('"', '""')}"`
