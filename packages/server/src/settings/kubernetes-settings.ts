import { integer, matching, oneOf, optional, setting, text } from './setting.ts'

/** Databases as CloudNativePG clusters; used with `KEYHOOK_DATABASE_DRIVER=cloudnativepg` only. */
export const kubernetesSettings = {
  databaseDriver: setting(
    'KEYHOOK_DATABASE_DRIVER',
    'local',
    oneOf('local', 'cloudnativepg'),
    'Who runs the databases: this machine, or CloudNativePG on Kubernetes. The same on every node.',
  ),
  kubernetesNamespace: setting(
    'KEYHOOK_KUBERNETES_NAMESPACE',
    'keyhook-databases',
    matching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'a namespace'),
    'The namespace of the databases. One for each installation of Keyhook.',
  ),
  kubernetesConfig: optional(
    'KEYHOOK_KUBERNETES_CONFIG',
    text,
    'A kubeconfig file. Unset: the service account of the pod that Keyhook runs in.',
  ),
  kubernetesInstances: setting(
    'KEYHOOK_KUBERNETES_INSTANCES',
    '1',
    integer(1, 9, 'a number of instances'),
    'PostgreSQL servers of each new database: one, or one with replicas that take over.',
  ),
  kubernetesStorageClass: optional(
    'KEYHOOK_KUBERNETES_STORAGE_CLASS',
    matching(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'a storage class'),
    'The storage class of new databases. Unset: the default one of the Kubernetes cluster.',
  ),
  kubernetesService: setting(
    'KEYHOOK_KUBERNETES_SERVICE',
    'ClusterIP',
    oneOf('ClusterIP', 'LoadBalancer'),
    'How clients reach a database: inside of the Kubernetes cluster only, or through a load balancer of its own.',
  ),
  kubernetesImage: optional(
    'KEYHOOK_KUBERNETES_IMAGE',
    matching(/^[a-z0-9][A-Za-z0-9_.:/@-]{0,500}$/, 'a name of an image'),
    'The PostgreSQL image of new databases. Unset: the default one of CloudNativePG.',
  ),
  kubernetesReadyMinutes: setting(
    'KEYHOOK_KUBERNETES_READY_MINUTES',
    '30',
    integer(1, 1_440, 'a number of minutes'),
    'How long a new database, or one that is restored, may take until it is ready.',
  ),
} as const
