package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// fanout is how long changes took to watchers, counted from the moment that the write was sent and from its answer. An event may be
// there before the answer; such a time is negative.
type fanout struct {
	Watchers   int    `json:"watchers"`
	Changes    int    `json:"changes"`
	EachSent   spread `json:"each_from_write"`
	LastSent   spread `json:"last_from_write"`
	EachAnswer spread `json:"each_from_answer"`
	LastAnswer spread `json:"last_from_answer"`
}

// watch changes one ConfigMap count times, each change after every watcher saw the one before.
func watch(l load) (any, error) {
	writer, err := connect(l)
	if err != nil {
		return nil, err
	}
	collection := "/api/v1/namespaces/" + l.namespace + "/configmaps"
	if _, err := writer.send(http.MethodPost, collection, "application/json", configMap(l, 0, 0), http.StatusCreated); err != nil {
		return nil, err
	}
	seen := make([][]time.Time, l.clients)
	errs := make(chan error, l.clients)
	arrived := make(chan struct{}, l.clients)
	var opened sync.WaitGroup
	opened.Add(l.clients)
	for at := range seen {
		seen[at] = make([]time.Time, l.count+1)
		go func() {
			if err := follow(l, collection, seen[at], &opened, arrived); err != nil {
				errs <- err
			}
		}()
	}
	opened.Wait()
	sent := make([]time.Time, l.count+1)
	answered := make([]time.Time, l.count+1)
	path := fmt.Sprintf("%s/%s-%06d", collection, l.prefix, 0)
	for turn := 0; turn <= l.count; turn++ {
		sent[turn] = time.Now()
		if turn > 0 {
			if _, err := writer.send(http.MethodPut, path, "application/json", configMap(l, 0, turn), http.StatusOK); err != nil {
				return nil, err
			}
		}
		answered[turn] = time.Now()
		for range l.clients {
			select {
			case <-arrived:
			case err := <-errs:
				return nil, err
			case <-time.After(l.within):
				return nil, fmt.Errorf("change %d did not reach every watcher within %s", turn, l.within)
			}
		}
	}
	// The first turn is what a watch starts with, and tells only that all watchers are there.
	var each, last, eachAfter, lastAfter []time.Duration
	for turn := 1; turn <= l.count; turn++ {
		var latest time.Time
		for _, one := range seen {
			each = append(each, one[turn].Sub(sent[turn]))
			eachAfter = append(eachAfter, one[turn].Sub(answered[turn]))
			if one[turn].After(latest) {
				latest = one[turn]
			}
		}
		last = append(last, latest.Sub(sent[turn]))
		lastAfter = append(lastAfter, latest.Sub(answered[turn]))
	}
	return fanout{l.clients, l.count, spreadOf(each), spreadOf(last), spreadOf(eachAfter), spreadOf(lastAfter)}, nil
}

// follow opens one watch and notes when each turn of the ConfigMap arrived.
func follow(l load, collection string, seen []time.Time, opened *sync.WaitGroup, arrived chan<- struct{}) error {
	c, err := connect(l)
	if err != nil {
		opened.Done()
		return err
	}
	selector := fmt.Sprintf("fieldSelector=metadata.name%%3D%s-%06d", l.prefix, 0)
	response, err := c.open(http.MethodGet, collection+"?watch=1&"+selector, "", nil)
	opened.Done()
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("watch: %s", response.Status)
	}
	lines := bufio.NewReaderSize(response.Body, 64<<10)
	mark := []byte(`"turn":"turn-`)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("a watch ended early: %w", err)
		}
		now := time.Now()
		_, after, found := bytes.Cut(line, mark)
		if !found || len(after) < 6 {
			return fmt.Errorf("an event of something else: %.200s", line)
		}
		turn, err := strconv.Atoi(string(after[:6]))
		if err != nil {
			return err
		}
		seen[turn] = now
		arrived <- struct{}{}
		if turn == len(seen)-1 {
			return nil
		}
	}
}
