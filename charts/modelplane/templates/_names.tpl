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

{{- /* A quantity as a number. */}}
{{- define "modelplane.number" -}}
{{- $text := toString . }}
{{- $factors := dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 }}
{{- $factors = merge $factors (dict "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0) }}
{{- $suffix := regexFind "[a-zA-Z]+$" $text }}
{{- if $suffix }}{{ mulf (float64 (trimSuffix $suffix $text)) (get $factors $suffix) }}{{ else }}{{ float64 $text }}{{ end }}
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
{{- $seen := dict "POD_IP" true }}
{{- range .Values.extraEnv }}
{{- if eq .name "POD_IP" }}
{{- fail "extraEnv: POD_IP is set by the chart; leave it out" }}
{{- end }}
{{- if hasKey $seen .name }}
{{- fail (printf "extraEnv: %s comes twice; keep one of the two" .name) }}
{{- end }}
{{- $_ := set $seen .name true }}
{{- end }}
{{- range .Values.topologySpreadConstraints }}
{{- $pair := printf "%s, %s" .topologyKey .whenUnsatisfiable }}
{{- if hasKey $seen $pair }}
{{- fail (printf "topologySpreadConstraints: %s comes twice; keep one of the two" $pair) }}
{{- end }}
{{- $_ := set $seen $pair true }}
{{- end }}
{{- $resources := .Values.resources | default dict }}
{{- range $name, $limit := $resources.limits | default dict }}
{{- $request := get ($resources.requests | default dict) $name }}
{{- if and $request (gt (float64 (include "modelplane.number" $request)) (float64 (include "modelplane.number" $limit))) }}
{{- fail (printf "resources: the request of %s, %v, is more than its limit, %v; raise the limit or lower the request" $name $request $limit) }}
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
