{{/*
One role as a Deployment with its PodDisruptionBudget.
(dict "root" $ "name" the component "command" list "role" its values "drains" bool "port" bool "auth" bool "scaled" bool); auth: it signs tokens
*/}}
{{- define "tickwise.role" -}}
{{- $root := .root -}}
{{- $kind := .drains | ternary "executor" .name -}}
{{- $name := printf "%s-%s" (include "tickwise.name" $root) .name -}}
{{- $sandbox := and .drains (get .role "sandbox" | default dict) -}}
{{- if not (get ($sandbox | default dict) "enabled") }}{{ $sandbox = dict }}{{ end -}}
{{- $pods := dict -}}
{{- if .drains }}{{ $pods = get .role "pods" | default dict }}{{ end -}}
{{- if not (get $pods "enabled") }}{{ $pods = dict }}{{ end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels:
    {{- include "tickwise.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  {{- if not .scaled }}
  replicas: {{ .role.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  # The new one works before an old one goes; versions side by side are what the schema is made for.
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels:
      {{- include "tickwise.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .name }}
  template:
    metadata:
      labels:
        {{- include "tickwise.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .name }}
      annotations:
        # Settings are read once, at the start: other settings are other pods.
        checksum/settings: {{ include "tickwise.toml" $root.Values.settings | sha256sum }}
        checksum/secrets: {{ include "tickwise.roleSecrets" (dict "root" $root "role" $kind) | sha256sum }}
        {{- with get $pods "template" }}
        checksum/pod-template: {{ toYaml . | sha256sum }}
        {{- end }}
        {{- with .role.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "tickwise.poolAccount" (dict "root" $root "pool" (trimPrefix "executor-" .name) "pods" $pods) | trim }}
      # A token of the cluster only where it is used.
      automountServiceAccountToken: {{ if $pods }}true{{ else }}false{{ end }}
      enableServiceLinks: false
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- if .drains }}
      # The pod's own first process reaps what tasks leave behind.
      shareProcessNamespace: true
      {{- end }}
      terminationGracePeriodSeconds: {{ include "tickwise.grace" . }}
      {{- if $sandbox }}
      hostUsers: {{ $sandbox.hostUsers }}
      {{- end }}
      securityContext:
        {{- include "tickwise.podSecurity" $root | nindent 8 }}
      containers:
        - name: {{ first .command }}
          image: {{ include "tickwise.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ toJson .command }}
          env:
            - {name: TICKWISE_CONFIG_LOCATION, value: /etc/tickwise}
            - {name: TICKWISE_HEALTH_PORT, value: "8471"}
            {{- with $root.Values.blobs.url }}
            - {name: TICKWISE_BLOBS_URL, value: {{ . | quote }}}
            {{- if not (hasKey $root.Values.settings "output_spool_bytes") }}
            # Half of the usual `workSize`: a pod whose volume is over its limit is evicted.
            - {name: TICKWISE_OUTPUT_SPOOL_BYTES, value: "134217728"}
            {{- end }}
            {{- end }}
            {{- if and .port $root.Values.tls.secret }}
            - {name: TICKWISE_TLS_CERT_FILE, value: /etc/tickwise-tls/tls.crt}
            - {name: TICKWISE_TLS_KEY_FILE, value: /etc/tickwise-tls/tls.key}
            {{- else if and .port (or $root.Values.httpRoute.enabled (and $root.Values.ingress.enabled $root.Values.ingress.tlsSecret)) (not (hasKey $root.Values.settings "tls_ends_at")) }}
            - {name: TICKWISE_TLS_ENDS_AT, value: proxy}
            {{- end }}
            {{- if and .auth $root.Values.tokenKey.secret }}
            - {name: TICKWISE_TOKEN_KEY_FILE, value: /etc/tickwise-token/token.key}
            {{- end }}
            {{- if $sandbox }}
            # It does not start on a node that gives no sandbox, and says why.
            - {name: TICKWISE_ISOLATION, value: sandbox}
            {{- end }}
            {{- if $pods }}
            - {name: TICKWISE_CONTAINER_ENGINE, value: "kubernetes://"}
            - {name: TICKWISE_KUBERNETES_NAMESPACES, value: {{ include "tickwise.podPlaces" $pods | quote }}}
            # Also in values of an older chart, which say nothing of it.
            - {name: TICKWISE_KUBERNETES_PLAIN_TASKS, value: {{ ternary "allowed" "refused" (eq true (get $pods "plainTasks" | default false)) }}}
            {{- if get $pods "template" }}
            - {name: TICKWISE_KUBERNETES_POD_TEMPLATE, value: /etc/tickwise-pods/pod-template.yaml}
            {{- end }}
            {{- end }}
            {{- with .role.environment }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            {{- if .port }}
            - {name: api, containerPort: 8470}
            {{- end }}
            {{- if eq .name "keeper" }}
            - {name: keeper, containerPort: 8472}
            {{- end }}
            - {name: health, containerPort: 8471}
          # Machines come up in any order: a role lives while it waits for what it needs, and /readyz says for what.
          startupProbe:
            httpGet: {path: /livez, port: health}
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 30
          livenessProbe:
            httpGet: {path: /livez, port: health}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: health}
            periodSeconds: 5
            timeoutSeconds: 4
            failureThreshold: 2
          {{- if .port }}
          # Those who send requests here hear of its end a little later than it does.
          lifecycle:
            preStop:
              exec: {command: [sleep, "5"]}
          {{- end }}
          securityContext:
            {{- include "tickwise.containerSecurity" (default dict $sandbox) | nindent 12 }}
          resources:
            {{- toYaml .role.resources | nindent 12 }}
          volumeMounts:
            - {name: configuration, mountPath: /etc/tickwise, readOnly: true}
            {{- if and .port $root.Values.tls.secret }}
            - {name: tls, mountPath: /etc/tickwise-tls, readOnly: true}
            {{- end }}
            {{- if and .auth $root.Values.tokenKey.secret }}
            - {name: token, mountPath: /etc/tickwise-token, readOnly: true}
            {{- end }}
            {{- if get $pods "template" }}
            - {name: pod-template, mountPath: /etc/tickwise-pods, readOnly: true}
            {{- end }}
            - {name: tmp, mountPath: /tmp}
            - {name: data, mountPath: /data}
            {{- if not $root.Values.blobs.url }}
            - {name: blobs, mountPath: /data/blobs}
            {{- end }}
      volumes:
        {{- include "tickwise.configuration" (dict "configMap" (include "tickwise.name" $root) "secret" (include "tickwise.secret" $root) "role" $kind) | nindent 8 }}
        {{- if and .port $root.Values.tls.secret }}
        - name: tls
          secret: {secretName: {{ $root.Values.tls.secret }}, defaultMode: 0440}
        {{- end }}
        {{- if and .auth $root.Values.tokenKey.secret }}
        - name: token
          secret:
            secretName: {{ $root.Values.tokenKey.secret }}
            defaultMode: 0440
            items: [{key: token.key, path: token.key}]
        {{- end }}
        {{- if get $pods "template" }}
        - name: pod-template
          configMap: {name: {{ $name }}}
        {{- end }}
        - name: tmp
          emptyDir: {sizeLimit: 256Mi}
        - name: data
          emptyDir: {sizeLimit: {{ .role.workSize | default "256Mi" }}}
        {{- if not $root.Values.blobs.url }}
        - name: blobs
          persistentVolumeClaim:
            claimName: {{ $root.Values.blobs.existingClaim | default (printf "%s-blobs" (include "tickwise.name" $root)) }}
        {{- end }}
      {{- if $root.Values.topologySpread.enabled }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: {{ $root.Values.topologySpread.key }}
          whenUnsatisfiable: {{ $root.Values.topologySpread.whenUnsatisfiable }}
          labelSelector:
            matchLabels:
              {{- include "tickwise.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ .name }}
      {{- end }}
      {{- with .role.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .role.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .role.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- if $root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels:
    {{- include "tickwise.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  maxUnavailable: {{ $root.Values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "tickwise.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .name }}
{{- end }}
{{- end -}}
