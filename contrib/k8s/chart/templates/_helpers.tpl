{{/* Labels of every object. Selectors use the name alone. */}}
{{- define "pysbx.labels" -}}
app.kubernetes.io/name: pysbx
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "pysbx.metadata" -}}
name: pysbx
namespace: {{ .Values.namespace.name | quote }}
labels:
  {{- include "pysbx.labels" . | nindent 2 }}
{{- end }}

{{- define "pysbx.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end }}

{{/* The filter of the pod below the kubelet's directory. The operator has one of its own there. */}}
{{- define "pysbx.localhostProfile" -}}
{{- if eq .Values.seccomp.type "Operator" -}}
operator/{{ include "pysbx.seccompProfile" . }}.json
{{- else -}}
{{ .Values.seccomp.localhostProfile }}
{{- end -}}
{{- end }}

{{/* The name of the SeccompProfile, which belongs to no namespace. */}}
{{- define "pysbx.seccompProfile" -}}
{{ .Values.namespace.name }}-serve
{{- end }}

{{/* The token that is given, or the one that exists, or a new one. */}}
{{- define "pysbx.token" -}}
{{- $found := lookup "v1" "Secret" .Values.namespace.name .Values.token.secret -}}
{{- if .Values.token.value -}}
{{ .Values.token.value | b64enc }}
{{- else if $found -}}
{{ index $found.data "token" }}
{{- else -}}
{{ randAlphaNum 48 | b64enc }}
{{- end -}}
{{- end }}

{{/* Whether Pod Security's level baseline permits a pod whose sandboxes are containers. */}}
{{- define "pysbx.baseline" -}}
{{- $seLinux := .Values.seLinux -}}
{{- and (ne .Values.seccomp.type "Unconfined") (ne .Values.appArmor.type "Unconfined")
    (has (default "" $seLinux.type) (list "" "container_t" "container_init_t" "container_kvm_t" "container_engine_t"))
    (not $seLinux.user) (not $seLinux.role) (semverCompare ">=1.37.0-0" .Capabilities.KubeVersion.Version) -}}
{{- end }}
