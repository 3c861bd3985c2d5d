{{- define "keyhook.name" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "keyhook.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "keyhook.labels" -}}
{{ include "keyhook.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* One Deployment: dict "top" $ "role" "api" "values" .Values.api "graceSeconds" 45 */}}
{{- define "keyhook.deployment" -}}
{{- $top := .top -}}
{{- $values := $top.Values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "keyhook.name" $top }}-{{ .role }}
  labels:
    {{- include "keyhook.labels" $top | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  replicas: {{ .replicas }}
  {{- if eq .role "jobs" }}
  strategy:
    type: Recreate
  {{- end }}
  selector:
    matchLabels:
      {{- include "keyhook.selector" $top | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
  template:
    metadata:
      labels:
        {{- include "keyhook.labels" $top | nindent 8 }}
        app.kubernetes.io/component: {{ .role }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "keyhook.name" $top }}
      automountServiceAccountToken: {{ eq .role "jobs" }}
      terminationGracePeriodSeconds: {{ .graceSeconds }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile:
          type: RuntimeDefault
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: keyhook
          image: "{{ $values.image.repository }}:{{ $values.image.tag | default $top.Chart.AppVersion }}"
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args: [serve, --role, {{ .role }}]
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          env:
            - name: DATABASE_URL_FILE
              value: /run/secrets/keyhook/database-url
            - name: KEYHOOK_MASTER_KEY_FILE
              value: /run/secrets/keyhook/master-key
            {{- if $values.serviceMonitor.enabled }}
            - name: KEYHOOK_METRICS_TOKEN_FILE
              value: /run/secrets/keyhook/metrics-token
            {{- end }}
            {{- if ne .role "api" }}
            - name: KEYHOOK_METRICS_PORT
              value: "8080"
            {{- end }}
            {{- with $values.publicUrl }}
            - name: KEYHOOK_PUBLIC_URL
              value: {{ . | quote }}
            {{- end }}
            {{- with $values.trustedProxies }}
            - name: KEYHOOK_TRUSTED_PROXIES
              value: {{ . | quote }}
            {{- end }}
            {{- if $values.databases.enabled }}
            - name: KEYHOOK_DATABASE_DRIVER
              value: cloudnativepg
            - name: KEYHOOK_KUBERNETES_NAMESPACE
              value: {{ $values.databases.namespace | quote }}
            - name: KEYHOOK_S3_SECRET_ACCESS_KEY_FILE
              value: /run/secrets/keyhook/s3-secret-access-key
            {{- end }}
            {{- range $name, $value := $values.settings }}
            - name: {{ $name }}
              value: {{ $value | toString | quote }}
            {{- end }}
          ports:
            - name: http
              containerPort: 8080
          startupProbe:
            httpGet: { path: /readyz, port: http }
            periodSeconds: 2
            failureThreshold: 60
          readinessProbe:
            httpGet: { path: /readyz, port: http }
            periodSeconds: 5
            timeoutSeconds: 5
          livenessProbe:
            httpGet: { path: /healthz, port: http }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          resources:
            {{- toYaml .resources | nindent 12 }}
          volumeMounts:
            - name: secrets
              mountPath: /run/secrets/keyhook
              readOnly: true
            - name: data
              mountPath: /data
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: secrets
          secret:
            secretName: {{ $values.existingSecret }}
            defaultMode: 0440
        - name: data
          emptyDir: {}
        - name: tmp
          emptyDir: {}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "keyhook.selector" $top | nindent 14 }}
              app.kubernetes.io/component: {{ .role }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}
