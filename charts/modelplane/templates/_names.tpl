{{- define "modelplane.labels" -}}
{{- include "modelplane.labelled" (dict "root" . "labels" dict) }}
{{- end }}

{{- /* Labels of the chart, then those asked for, then the common ones: a name that comes twice is written once. */}}
{{- define "modelplane.labelled" -}}
{{ toYaml (merge dict (fromYaml (include "modelplane.own" .root)) (.labels | default dict) (.root.Values.commonLabels | default dict)) }}
{{- end }}

{{- define "modelplane.own" -}}
{{ include "modelplane.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "modelplane.selector" -}}
app.kubernetes.io/name: modelplane-operator
{{- end }}

{{- /* Labels of what has none of the chart's: definitions and rights. */}}
{{- define "modelplane.common" -}}
{{- with .Values.commonLabels }}
  labels: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{- define "modelplane.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- /* One name for each way to come by a certificate: Helm takes over no Secret that cert-manager made, and removes its own one on the way. */}}
{{- define "modelplane.webhookSecret" -}}
{{- with .Values.webhook -}}
{{- if .existingSecret }}{{ .existingSecret }}{{ else if .certManager }}modelplane-webhook-cert-manager{{ else }}modelplane-webhook{{ end }}
{{- end -}}
{{- end }}

{{- /* What a schema cannot say, in words. */}}
{{- define "modelplane.checks" -}}
{{- if ne .Release.Namespace "modelplane-system" }}
{{- fail "the control plane keeps its Secrets and its Lease in modelplane-system: install with --namespace modelplane-system --create-namespace" }}
{{- end }}
{{- range tuple "commonLabels" "podLabels" }}
{{- $value := . }}
{{- range $name, $_ := index $.Values . }}
{{- if has $name (tuple "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by") }}
{{- fail (printf "%s: %s is the chart's own label; take another name" $value $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.extraEnv }}
{{- if eq .name "POD_IP" }}
{{- fail "extraEnv: POD_IP is set by the chart; leave it out" }}
{{- end }}
{{- end }}
{{- $webhook := .Values.webhook }}
{{- if $webhook.enabled }}
{{- if eq (int $webhook.port) (int .Values.healthPort) }}
{{- fail (printf "webhook.port and healthPort are both %d; give one of them another port" (int $webhook.port)) }}
{{- end }}
{{- if and $webhook.existingSecret $webhook.certManager }}
{{- fail "webhook.existingSecret and webhook.certManager are two ways to come by one certificate; set one of them" }}
{{- end }}
{{- if and $webhook.existingSecret (not $webhook.caBundle) }}
{{- fail "webhook.existingSecret needs webhook.caBundle, the certificate of whoever signed it: --set-file webhook.caBundle=ca.crt" }}
{{- end }}
{{- if and $webhook.caBundle (not $webhook.existingSecret) }}
{{- fail "webhook.caBundle needs webhook.existingSecret, the Secret in modelplane-system with tls.crt and tls.key" }}
{{- end }}
{{- if has $webhook.existingSecret (tuple "modelplane-webhook" "modelplane-webhook-cert-manager") }}
{{- fail (printf "webhook.existingSecret: %s is the name of a Secret that the chart or cert-manager makes and removes; take another name" $webhook.existingSecret) }}
{{- end }}
{{- if $webhook.caBundle }}
{{- $pem := $webhook.caBundle }}
{{- if not (contains "-----BEGIN CERTIFICATE-----" $pem) }}
{{- $pem = $webhook.caBundle | b64dec }}
{{- end }}
{{- if not (contains "-----BEGIN CERTIFICATE-----" $pem) }}
{{- fail "webhook.caBundle is no certificate: it starts with -----BEGIN CERTIFICATE-----, or is that in base64" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
