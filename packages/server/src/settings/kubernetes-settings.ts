import { integer, matching, oneOf, optional, setting, text } from './setting.ts'

/** Databases as CloudNativePG clusters; used with `KEYHOOK_DATABASE_DRIVER=cloudnativepg` only. */
export const kubernetesSettings = {
  databaseDriver: setting(
    'KEYHOOK_DATABASE_DRIVER',
    'local',
    oneOf('local', 'cloudnativepg'),
    'What runs the databases: this machine, or CloudNativePG on Kubernetes. Set it alike on every node.',
  ),
  kubernetesNamespace: setting(
    'KEYHOOK_KUBERNETES_NAMESPACE',
    'keyhook-databases',
    matching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'a namespace'),
    'Namespace of the databases. Each installation needs its own.',
  ),
  kubernetesConfig: optional(
    'KEYHOOK_KUBERNETES_CONFIG',
    text,
    'Path of a kubeconfig file. If unset, Keyhook uses the service account of its pod.',
  ),
  kubernetesInstances: setting(
    'KEYHOOK_KUBERNETES_INSTANCES',
    '1',
    integer(1, 9, 'a number of instances'),
    'Number of PostgreSQL servers of a new database: the primary and its replicas.',
  ),
  kubernetesStorageClass: optional(
    'KEYHOOK_KUBERNETES_STORAGE_CLASS',
    matching(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'a storage class'),
    'Storage class of new databases. If unset, the default of the Kubernetes cluster is used.',
  ),
  kubernetesService: setting(
    'KEYHOOK_KUBERNETES_SERVICE',
    'ClusterIP',
    oneOf('ClusterIP', 'LoadBalancer'),
    'How clients reach a database: `ClusterIP` inside the Kubernetes cluster only, `LoadBalancer` through a load balancer for each database.',
  ),
  kubernetesImage: optional(
    'KEYHOOK_KUBERNETES_IMAGE',
    matching(/^[a-z0-9][A-Za-z0-9_.:/@-]{0,500}$/, 'a name of an image'),
    'PostgreSQL image of new databases. If unset, CloudNativePG chooses it.',
  ),
  kubernetesReadyMinutes: setting(
    'KEYHOOK_KUBERNETES_READY_MINUTES',
    '30',
    integer(1, 1_440, 'a number of minutes'),
    'Minutes that a new or restored database may take until it is ready.',
  ),
} as const
