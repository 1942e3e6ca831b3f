package main

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

// lists is what reading a whole namespace took.
type lists struct {
	Objects int    `json:"objects"`
	Bytes   int    `json:"bytes"`
	Latency spread `json:"latency"`
}

// list reads all ConfigMaps of a namespace, count times, one after the other, in the way that sees every write before.
func list(l load) (any, error) {
	c, err := connect(l)
	if err != nil {
		return nil, err
	}
	var found lists
	path := "/api/v1/namespaces/" + l.namespace + "/configmaps"
	times := make([]time.Duration, l.count)
	for at := range times {
		start := time.Now()
		body, err := c.send(http.MethodGet, path, "", nil, http.StatusOK)
		if err != nil {
			return nil, err
		}
		times[at] = time.Since(start)
		found.Bytes = len(body)
		found.Objects = bytes.Count(body, []byte(`"uid":"`))
	}
	found.Latency = spreadOf(times)
	return found, nil
}

// ready waits until /readyz is answered with 200; who calls knows since when.
func ready(l load) (any, error) {
	deadline := time.Now().Add(l.within)
	for {
		c, err := connect(l)
		if err != nil {
			return nil, err
		}
		body, err := c.send(http.MethodGet, "/readyz", "", nil, http.StatusOK)
		if err == nil {
			return map[string]string{"answer": string(body)}, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("not ready within %s: %w", l.within, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
