#!/usr/bin/env bash
# Builds the control plane that judges ours: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and helm, from Go modules.
#
# Does nothing when the binaries are there. They go to a cache outside the tree, one folder per version; each gets there in one
# step, so that a broken build never looks complete, and a cache that lacks one gets that one. Other versions than that of
# tests/kubernetes/go.mod (1.34.x, 1.35.x) get etcd and kube-apiserver only, from a go.mod that is written on the way.
set -euo pipefail

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../tests/kubernetes" && pwd)
pinned=$(sed -n 's|^\s*k8s.io/kubernetes v\([0-9.]*\).*|\1|p' "$tree/go.mod")
version=${1:-$pinned}
cache=${MODELPLANE_KUBERNETES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/modelplane/kubernetes}
target=$cache/$version
wanted=(kube-apiserver etcd)
test "$version" != "$pinned" || wanted+=(kube-controller-manager kube-scheduler helm)

missing=()
for binary in "${wanted[@]}"; do
  test -x "$target/$binary" || missing+=("$binary")
done
ready() { echo "Kubernetes $version is in $target"; }
if [ ${#missing[@]} -eq 0 ]; then
  ready
  exit 0
fi
if ! command -v go >/dev/null; then
  echo "Kubernetes $version is built with Go 1.26 or newer, and there is no 'go' in PATH; install it from https://go.dev/dl/" >&2
  exit 1
fi
case $(go env GOVERSION) in
  go1.[0-9].* | go1.1[0-9]* | go1.2[0-5]*) echo "Kubernetes $version needs Go 1.26 or newer; this is $(go env GOVERSION)" >&2; exit 1 ;;
esac

scratch=$(mktemp -d "${TMPDIR:-/tmp}/modelplane-kubernetes-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
module=$tree
if [ "$version" != "$pinned" ]; then
  module=$scratch/module
  mkdir "$module"
  (
    cd "$module"
    go mod init modelplane.ai/tests/kubernetes
    # Kubernetes' own go.mod names the modules of its staging tree as v0.0.0; each is published as v0.MINOR.PATCH.
    kubernetes=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
    sed -n 's|^\s*\(k8s.io/[a-z0-9.-]*\) v0.0.0\( .*\)\?$|\1|p' "$kubernetes" | sort -u | while read -r staging; do
      go mod edit -replace "$staging=$staging@v0.${version#1.}"
    done
    go get -tool "k8s.io/kubernetes/cmd/kube-apiserver@v$version"
    go mod tidy
  ) >&2
fi
stamp=k8s.io/component-base/version
IFS=. read -r major minor _ <<<"$version"
echo "building ${missing[*]} for Kubernetes $version into $target (all of them take about eight minutes on two cores, once)" >&2
mkdir -p "$target"
export GOFLAGS=-buildvcs=false
for binary in "${missing[@]}"; do
  case $binary in
    etcd) go build -C "$tree/etcd" -o "$scratch/etcd" go.etcd.io/etcd/server/v3 ;;
    helm) go build -C "$tree/helm" -ldflags "-s -w" -o "$scratch/helm" helm.sh/helm/v4/cmd/helm ;;
    *)
      go build -C "$module" -o "$scratch/$binary" \
        -ldflags "-X $stamp.gitVersion=v$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor" \
        "k8s.io/kubernetes/cmd/$binary"
      ;;
  esac
  cp "$scratch/$binary" "$target/.$binary.partial.$$"
  mv -T "$target/.$binary.partial.$$" "$target/$binary"
done
ready
