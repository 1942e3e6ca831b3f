package main

import (
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// writes is what came of a number of them: all were acknowledged, or the measurement failed.
type writes struct {
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"per_second"`
	Latency spread  `json:"latency"`
}

// create posts ConfigMaps with labels and some text.
func create(l load) (any, error) {
	path := "/api/v1/namespaces/" + l.namespace + "/configmaps"
	return writeAll(l, func(c *client, number int) error {
		_, err := c.send(http.MethodPost, path, "application/json", configMap(l, number, 0), http.StatusCreated)
		return err
	})
}

// apply creates ModelServices by server-side apply: a custom kind with a structural schema, rules and defaults.
func apply(l load) (any, error) {
	return writeAll(l, func(c *client, number int) error {
		name := fmt.Sprintf("%s-%06d", l.prefix, number)
		path := fmt.Sprintf("/apis/modelplane.ai/v1alpha1/namespaces/%s/modelservices/%s?fieldManager=load", l.namespace, name)
		body := fmt.Sprintf(`{"apiVersion":"modelplane.ai/v1alpha1","kind":"ModelService","metadata":{"name":%q,"namespace":%q,`+
			`"labels":{"app":"load","team":"ml"}},"spec":{"endpoints":[`+
			`{"weight":3,"selector":{"matchLabels":{"modelplane.ai/deployment":"model-%d"}}},`+
			`{"weight":1,"selector":{"matchLabels":{"modelplane.ai/deployment":"canary-%d"}}}]}}`,
			name, l.namespace, number, number)
		_, err := c.send(http.MethodPatch, path, "application/apply-patch+yaml", []byte(body), http.StatusCreated)
		return err
	})
}

func configMap(l load, number, turn int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s-%06d","namespace":%q,`+
		`"labels":{"app":"load","shard":"s%d"}},"data":{"turn":"turn-%06d","mode":"synthetic",`+
		`"note":"Some text of a usual length, as a setting or a small file of configuration would have it."}}`,
		l.prefix, number, l.namespace, number%16, turn)
}

// writeAll does count writes by all clients together, each client one after the other. That is work for a part of one processor;
// with leave to use more, Go looks for work on those that the server needs.
func writeAll(l load, write func(c *client, number int) error) (any, error) {
	runtime.GOMAXPROCS(1)
	clients, err := connectAll(l, l.clients)
	if err != nil {
		return nil, err
	}
	times := make([]time.Duration, l.count)
	errs := make(chan error, l.clients)
	var next atomic.Int64
	var done sync.WaitGroup
	began := time.Now()
	for _, one := range clients {
		done.Go(func() {
			for {
				number := int(next.Add(1)) - 1
				if number >= l.count {
					return
				}
				start := time.Now()
				if err := write(one, number); err != nil {
					errs <- err
					return
				}
				times[number] = time.Since(start)
			}
		})
	}
	done.Wait()
	seconds := time.Since(began).Seconds()
	select {
	case err := <-errs:
		return nil, err
	default:
	}
	return writes{l.count, seconds, float64(l.count) / seconds, spreadOf(times)}, nil
}
