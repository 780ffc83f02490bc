{{- define "tickwise.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tickwise.selector" -}}
app.kubernetes.io/name: tickwise
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tickwise.labels" -}}
{{ include "tickwise.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "tickwise.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ printf "%s@%s" .repository .digest }}
{{- else -}}{{ printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tickwise.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "tickwise.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "tickwise.secret" -}}
{{ .Values.existingSecret | default (include "tickwise.name" .) }}
{{- end -}}

{{/* A map as TOML, one key a line. Its values are strings, numbers, booleans and lists of strings, which JSON writes as TOML does. */}}
{{- define "tickwise.toml" -}}
{{- range $key, $value := . }}
{{ $key }} = {{ $value | toJson }}
{{- end }}
{{- end -}}

{{- define "tickwise.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
# A large volume is not walked through at each start.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Given the `sandbox` of a pool of executors; an empty one elsewhere. */}}
{{- define "tickwise.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {{ get . "seccompProfile" | default (dict "type" "RuntimeDefault") | toJson }}
{{- if get . "enabled" }}
procMount: Unmasked
{{- with get . "appArmorProfile" }}
appArmorProfile: {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
What a role holds of `secrets`, and nothing else: the admin key is the API's, the secret of requests the API's and the
recorder's, the addresses of heartbeats the scheduler's, the key of stored secrets that of those who store or open one, `database_url` that of the migrations, which own the schema. Each other role has a database role of its own, in
`secretsOf`. (dict "root" $ "role" api|search|identity|web|scheduler|recorder|executor|keeper|migrations)
*/}}
{{- define "tickwise.roleSecrets" -}}
{{- $secrets := .root.Values.secrets -}}
{{- $role := .role -}}
{{- $names := list "broker_url" "signals_url" -}}
{{- if eq $role "migrations" }}{{ $names = list "database_url" }}{{ end -}}
{{- if eq $role "keeper" }}{{ $names = list }}{{ end -}}
{{- if has $role (list "api" "search") }}{{ $names = append $names "search_database_url" }}{{ end -}}
{{- if has $role (list "api" "recorder") }}{{ $names = append $names "requests_keys" }}{{ end -}}
{{- if has $role (list "api" "web" "scheduler" "executor") }}{{ $names = append $names "secrets_key" }}{{ end -}}
{{- if eq $role "api" }}{{ $names = append $names "bootstrap_key" }}{{ end -}}
{{- if eq $role "scheduler" }}{{ $names = concat $names (list "heartbeat_url" "heartbeat_fail_url") }}{{ end -}}
{{- $held := dict -}}
{{- range $names }}{{ if hasKey $secrets . }}{{ $_ := set $held . (get $secrets .) }}{{ end }}{{ end -}}
{{- include "tickwise.toml" (mergeOverwrite $held (get .root.Values.secretsOf $role | default dict)) -}}
{{- end -}}

{{/* The roles whose pods this release has, as a list: api scheduler executor … */}}
{{- define "tickwise.components" -}}
{{- $components := list "api" "scheduler" -}}
{{- range $part := list "search" "identity" "web" "recorder" "keeper" }}{{ if (get $.Values $part).enabled }}{{ $components = append $components $part }}{{ end }}{{ end -}}
{{- if .Values.executors }}{{ $components = append $components "executor" }}{{ end -}}
{{- $components | toJson -}}
{{- end -}}

{{/* The user in the address of a database. */}}
{{- define "tickwise.databaseUser" -}}
{{- regexReplaceAll "^[a-z]+://([^:@/?]*)(.|\n)*$" . "${1}" -}}
{{- end -}}

{{/*
The folder that TICKWISE_CONFIG_LOCATION names: settings for all, the secrets of one role. (dict "configMap" … "secret" … "role" …)
*/}}
{{- define "tickwise.configuration" -}}
- name: configuration
  projected:
    defaultMode: 0440
    sources:
      {{- with .configMap }}
      - configMap:
          name: {{ . }}
          items: [{key: service.toml, path: service.toml}]
      {{- end }}
      - secret:
          name: {{ .secret }}
          items: [{key: {{ .role }}.toml, path: secrets.toml}]
{{- end -}}

{{/* How long a process may take to end by itself: (dict "root" $ "drains" bool). 10 s on top of what it takes at most. */}}
{{- define "tickwise.grace" -}}
{{- $settings := .root.Values.settings -}}
{{- if .drains -}}
{{ add (ceil (get $settings "drain_seconds" | default 30)) (ceil (get $settings "kill_grace_seconds" | default 5)) 10 }}
{{- else -}}
30
{{- end -}}
{{- end -}}

{{/* The namespaces of Kubernetes that pods of tasks run in, as a list, of the `pods` of a pool. */}}
{{- define "tickwise.podNamespaces" -}}
{{- $found := list -}}
{{- range $place := values (get . "namespaces" | default dict) }}{{ $found = append $found (first (splitList "/" $place)) }}{{ end -}}
{{- $found | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/* The same as the setting `kubernetes_namespaces`: acme=acme-jobs/runner,*=batch */}}
{{- define "tickwise.podPlaces" -}}
{{- $rules := list -}}
{{- range $whose, $place := get . "namespaces" }}{{ $rules = append $rules (printf "%s=%s" $whose $place) }}{{ end -}}
{{- join "," $rules -}}
{{- end -}}

{{/* The service account of a pool of executors: (dict "root" $ "pool" its name "pods" its `pods`). One of its own where it asks the cluster for pods. */}}
{{- define "tickwise.poolAccount" -}}
{{- if get (.pods | default dict) "enabled" -}}
{{ get .pods "serviceAccount" | default (printf "%s-executor-%s" (include "tickwise.name" .root) .pool) }}
{{- else -}}
{{ include "tickwise.serviceAccount" .root }}
{{- end -}}
{{- end -}}
