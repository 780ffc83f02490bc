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

{{- define "tickwise.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* The folder that TICKWISE_CONFIG_LOCATION names. (dict "configMap" … "secret" …) */}}
{{- define "tickwise.configuration" -}}
- name: configuration
  projected:
    defaultMode: 0440
    sources:
      - configMap:
          name: {{ .configMap }}
          items: [{key: service.toml, path: service.toml}]
      - secret:
          name: {{ .secret }}
          items: [{key: secrets.toml, path: secrets.toml}]
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
