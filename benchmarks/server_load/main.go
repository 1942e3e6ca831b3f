// Loads one Kubernetes API server and prints what it measured as one line of JSON.
//
// The same program, with the same requests, drives the embedded server and kube-apiserver: TLS with a verified certificate, a bearer
// token, JSON bodies without compression, one connection of its own for each client and each watcher. Standard library only, so that
// what it costs is small and the same on both sides.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// load is what the command line says; a mode uses the part that it needs.
type load struct {
	server    string
	token     string
	authority string
	http2     bool
	namespace string
	prefix    string
	clients   int
	count     int
	within    time.Duration
}

// modes are the measurements; each gives an object to print.
var modes = map[string]func(load) (any, error){
	"ready":  ready,
	"create": create,
	"apply":  apply,
	"watch":  watch,
	"list":   list,
}

func main() {
	var l load
	mode := flag.String("mode", "", "ready, create, apply, watch or list")
	flag.StringVar(&l.server, "server", "", "URL of the API server")
	flag.StringVar(&l.token, "token", "", "bearer token")
	flag.StringVar(&l.authority, "authority", "", "PEM file of the server's CA; empty trusts any certificate")
	flag.BoolVar(&l.http2, "http2", false, "HTTP/2 instead of HTTP/1.1")
	flag.StringVar(&l.namespace, "namespace", "default", "where objects are written and read")
	flag.StringVar(&l.prefix, "prefix", "load", "how names of objects start")
	flag.IntVar(&l.clients, "clients", 64, "writers (create, apply) or watchers (watch)")
	flag.IntVar(&l.count, "count", 1000, "writes in all, or lists")
	flag.DurationVar(&l.within, "within", 60*time.Second, "how long to wait until ready, and for the last event")
	flag.Parse()
	// Collecting garbage takes processor time from the server, which is on the same machine; a few megabytes more do not.
	debug.SetGCPercent(1000)
	run, known := modes[*mode]
	if !known {
		fail(fmt.Errorf("-mode %q: choose ready, create, apply, watch or list", *mode))
	}
	found, err := run(l)
	if err != nil {
		fail(fmt.Errorf("%s against %s: %w", *mode, l.server, err))
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
