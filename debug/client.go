package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/flight"
)

// Limits of what a Client reads, in bytes.
const (
	maxJSON   = 64 << 20
	maxFlight = 4 << 30
)

// Client asks a debug socket of this user: if another one listens there, nothing is asked, and
// nothing is read. It is safe in any goroutine.
type Client struct {
	path string
	http http.Client
}

// NewClient returns a Client of the socket at path. It connects with the first question.
func NewClient(path string) *Client {
	c := &Client{path: path}
	c.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, path)
		},
	}
	return c
}

// dial connects to a socket on which this user listens.
func dial(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	uid, err := peerOf(c.(*net.UnixConn))
	if err == nil && uid != os.Geteuid() {
		err = fmt.Errorf("user %d listens there, not %d", uid, os.Geteuid())
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes what is open.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Path returns the socket's file.
func (c *Client) Path() string { return c.path }

// About returns what the program is.
func (c *Client) About(ctx context.Context) (a About, err error) {
	err = c.get(ctx, "/v1/about", &a)
	return a, err
}

// Snapshots returns the state of all loops, each with at most so many sessions.
func (c *Client) Snapshots(ctx context.Context, sessions int) (list []*erpc.Snapshot, err error) {
	err = c.get(ctx, "/v1/snapshots?sessions="+strconv.Itoa(sessions), &list)
	return list, err
}

// Record makes all loops keep n datagrams each; 0 ends that.
func (c *Client) Record(ctx context.Context, n int) error {
	body, err := c.do(ctx, http.MethodPost, "/v1/record?n="+strconv.Itoa(n))
	if err != nil {
		return err
	}
	return body.Close()
}

// Flight takes the records of all loops that record; see Socket.Flight.
func (c *Client) Flight(ctx context.Context) ([]*flight.Dump, error) {
	body, err := c.do(ctx, http.MethodGet, "/v1/flight")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return flight.Read(io.LimitReader(body, maxFlight))
}

func (c *Client) get(ctx context.Context, url string, v any) error {
	body, err := c.do(ctx, http.MethodGet, url)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxJSON)).Decode(v); err != nil {
		return fmt.Errorf("debug: %s: %w", c.path, err)
	}
	return nil
}

// do asks and returns the body of the answer, which must be closed.
func (c *Client) do(ctx context.Context, method, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://debug"+url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("debug: %s: %w", c.path, err)
	}
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		_ = resp.Body.Close()
		return nil, fmt.Errorf("debug: %s: %s", c.path, strings.TrimSpace(string(text)))
	}
	return resp.Body, nil
}
