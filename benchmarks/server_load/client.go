package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"time"
)

// client is one connection to the server with the headers of one user.
type client struct {
	round func(*http.Request) (*http.Response, error)
	load  load
	bytes bytes.Buffer
}

// connect makes a client; the connection is opened by the first request. Over HTTP/1.1 a request is written and its answer read by
// who sends it: http.Transport has two goroutines for each connection, which cost as much again of the processor that load
// and server share.
func connect(l load) (*client, error) {
	trust := &tls.Config{InsecureSkipVerify: l.authority == ""}
	if l.authority != "" {
		pem, err := os.ReadFile(l.authority)
		if err != nil {
			return nil, err
		}
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", l.authority)
		}
	}
	if !l.http2 {
		return &client{round: (&line{trust: trust}).round, load: l}, nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		TLSClientConfig:    trust,
		Protocols:          protocols,
		MaxConnsPerHost:    1,
		DisableCompression: true,
	}
	return &client{round: transport.RoundTrip, load: l}, nil
}

// line is one connection that carries HTTP/1.1, one request after the other.
type line struct {
	trust  *tls.Config
	conn   *tls.Conn
	reader *bufio.Reader
	writer *bufio.Writer
}

// round sends a request and gives the answer with its body unread; the one before must have been read to its end.
func (l *line) round(request *http.Request) (*http.Response, error) {
	if l.conn == nil {
		conn, err := tls.Dial("tcp", request.URL.Host, l.trust)
		if err != nil {
			return nil, err
		}
		l.conn, l.reader, l.writer = conn, bufio.NewReader(conn), bufio.NewWriter(conn)
	}
	err := request.Write(l.writer)
	if err == nil {
		err = l.writer.Flush()
	}
	var response *http.Response
	if err == nil {
		response, err = http.ReadResponse(l.reader, request)
	}
	if err != nil {
		l.conn.Close()
		l.conn = nil
		return nil, err
	}
	return response, nil
}

// connectAll makes clients whose connections are open.
func connectAll(l load, count int) ([]*client, error) {
	made := make([]*client, count)
	for at := range made {
		one, err := connect(l)
		if err != nil {
			return nil, err
		}
		if _, err := one.send(http.MethodGet, "/version", "", nil, http.StatusOK); err != nil {
			return nil, err
		}
		made[at] = one
	}
	return made, nil
}

// open sends a request and gives the answer with its body unread.
func (c *client) open(method, path, contentType string, body []byte) (*http.Response, error) {
	request, err := http.NewRequest(method, c.load.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.load.token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "server_load/1")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	return c.round(request)
}

// send gives the whole body of an answer, until the next one; another status than the one wanted is an error.
func (c *client) send(method, path, contentType string, body []byte, want int) ([]byte, error) {
	response, err := c.open(method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	c.bytes.Reset()
	if _, err := io.Copy(&c.bytes, response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode != want {
		return nil, fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, c.bytes.Bytes())
	}
	return c.bytes.Bytes(), nil
}

// spread tells how some times are distributed, in milliseconds.
type spread struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

func spreadOf(times []time.Duration) spread {
	if len(times) == 0 {
		return spread{}
	}
	sort.Slice(times, func(a, b int) bool { return times[a] < times[b] })
	at := func(share float64) float64 {
		rank := int(share*float64(len(times))+0.999999) - 1
		return float64(times[max(rank, 0)]) / float64(time.Millisecond)
	}
	return spread{at(0.5), at(0.99), at(1)}
}
