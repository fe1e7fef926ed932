package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// ErrConfig means that there is neither a list of servers nor a resolver, or both.
var ErrConfig = errors.New("kv: bad client config")

// ErrNoServer means that the resolver has named no server yet.
var ErrNoServer = errors.New("kv: no server")

// Config names the servers: the address of any partition of each.
type Config struct {
	Servers []string
	// Resolver returns the servers that there are now. It is called at the start and every
	// ResolveEvery, in a goroutine, one call at a time. After an error, or without any server, those
	// of before stay.
	Resolver     func(ctx context.Context) ([]string, error)
	ResolveEvery time.Duration // default 30 s
	// RetryAfter is how long operations fail at once after a server could not be reached. Default
	// 1 s.
	RetryAfter time.Duration
}

// Client is for any number of goroutines.
type Client struct {
	loop   *erpc.Loop
	cfg    Config
	roster atomic.Pointer[roster]
	ctx    context.Context
	end    context.CancelFunc
	all    sync.WaitGroup
	closed sync.Once
}

// roster is the servers of some time.
type roster struct {
	members []*member
	hashes  []uint64 // of their names
}

// New makes a Client whose connections live in loop, which stays the caller's. It connects to a
// server when it needs it first. Errors: ErrConfig, and that of the first call of the resolver.
func New(ctx context.Context, loop *erpc.Loop, cfg Config) (*Client, error) {
	if (len(cfg.Servers) > 0) == (cfg.Resolver != nil) {
		return nil, fmt.Errorf("%w: want servers, or a resolver", ErrConfig)
	}
	if cfg.ResolveEvery <= 0 {
		cfg.ResolveEvery = 30 * time.Second
	}
	if cfg.RetryAfter <= 0 {
		cfg.RetryAfter = time.Second
	}
	c := &Client{loop: loop, cfg: cfg}
	c.roster.Store(new(roster))
	c.ctx, c.end = context.WithCancel(context.Background())
	if cfg.Resolver == nil {
		c.replace(cfg.Servers)
		return c, nil
	}
	names, err := cfg.Resolver(ctx)
	if err != nil {
		c.end()
		return nil, err
	}
	c.replace(names)
	c.all.Go(c.resolve)
	return c, nil
}

// resolve asks the resolver again and again.
func (c *Client) resolve() {
	t := time.NewTicker(c.cfg.ResolveEvery)
	defer t.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-t.C:
		}
		if names, err := c.cfg.Resolver(c.ctx); err == nil && len(names) > 0 && c.ctx.Err() == nil {
			c.replace(names)
		}
	}
}

// replace makes names the servers. Those that stay keep their connections.
func (c *Client) replace(names []string) {
	old, now := c.roster.Load(), new(roster)
	have := map[string]*member{}
	for _, m := range old.members {
		have[m.name] = m
	}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		m := have[name]
		if m == nil {
			m = newMember(c, name)
		}
		delete(have, name)
		now.members = append(now.members, m)
		now.hashes = append(now.hashes, nameHash(name))
	}
	c.roster.Store(now)
	for _, m := range have {
		c.all.Go(m.retire)
	}
}

// Close ends the connections, and calls under way with erpc.ErrClosed. The loop goes on.
func (c *Client) Close() error {
	c.closed.Do(func() {
		c.end()
		for _, m := range c.roster.Load().members {
			m.close()
		}
		c.all.Wait()
		for _, m := range c.roster.Load().members { // the resolver may have been quicker
			m.close()
		}
	})
	return nil
}

// known gives what a server refused the name that it has here.
func known(err error) error {
	if err == nil {
		return nil // without e, which would be allocated
	}
	var e *erpc.Error
	if !errors.As(err, &e) || e.Code != erpc.CodeInvalidArgument {
		return err
	}
	for _, k := range []error{message.ErrRequest, message.ErrPartition, message.ErrHash, mica.ErrKey,
		mica.ErrValue} {
		if strings.HasPrefix(e.Text, k.Error()) {
			return fmt.Errorf("%w: %w", k, err)
		}
	}
	return err
}

// of returns the server of a hash.
func (c *Client) of(hash uint64) (*member, error) {
	r := c.roster.Load()
	if len(r.members) == 0 {
		return nil, ErrNoServer
	}
	return r.members[choose(r.hashes, hash)], nil
}

// call asks the server of a hash.
func (c *Client) call(
	ctx context.Context, hash uint64, typ uint8, req []byte, err error,
) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	for {
		m, err := c.of(hash)
		if err != nil {
			return nil, err
		}
		resp, err := m.call(ctx, hash, typ, req)
		if err != errGone || c.ctx.Err() != nil {
			return resp, c.closing(err)
		}
	}
}

// closing gives errGone the name that callers know.
func (c *Client) closing(err error) error {
	if err == errGone {
		return erpc.ErrClosed
	}
	return err
}

// Get returns the item of key, in memory of its own. Errors of this and the following methods:
// mica.ErrNotFound, mica.ErrKey, ErrNoServer, message.ErrResponse, message.ErrPartition if the
// server has changed its partitions, those of the connection and of the call.
func (c *Client) Get(ctx context.Context, key []byte) (message.Value, error) {
	k := message.Keyed{Hash: mica.Hash(key), Key: key}
	req, err := k.Append(nil, message.Get)
	resp, err := c.call(ctx, k.Hash, message.Get, req, err)
	if err != nil {
		return message.Value{}, err
	}
	return message.ParseFound(resp)
}

// Put stores a value for good, and returns its version. Errors beside those of Get: mica.ErrValue,
// mica.ErrTooLarge, mica.ErrFullItems, mica.ErrFullIndex.
func (c *Client) Put(ctx context.Context, key, value []byte) (version uint64, err error) {
	return c.Write(ctx, message.Item{Key: key, Value: value})
}

// Write stores an item under its condition, and returns its version. Its Hash is set here. Errors
// beside those of Put: mica.ErrExists, mica.ErrVersion.
func (c *Client) Write(ctx context.Context, w message.Item) (version uint64, err error) {
	w.Hash = mica.Hash(w.Key)
	req, err := w.Append(nil)
	resp, err := c.call(ctx, w.Hash, message.Write, req, err)
	if err != nil {
		return 0, err
	}
	var n [1]uint64
	err = message.ParseNumbers(resp, n[:])
	return n[0], err
}

// Delete removes a key, if its item has that version; 0 is any. Errors beside those of Get:
// mica.ErrVersion.
func (c *Client) Delete(ctx context.Context, key []byte, version uint64) error {
	k := message.Keyed{Hash: mica.Hash(key), Key: key, Version: version}
	req, err := k.Append(nil, message.Delete)
	resp, err := c.call(ctx, k.Hash, message.Delete, req, err)
	if err != nil {
		return err
	}
	return message.ParseNumbers(resp, nil)
}

// Increment adds to a value that is a decimal number, or subtracts if down is set, and returns the
// new number; see mica.Partition.Increment. Errors beside those of Put: mica.ErrNumber.
func (c *Client) Increment(
	ctx context.Context, key []byte, delta uint64, down bool,
) (value uint64, err error) {
	k := message.Keyed{Hash: mica.Hash(key), Key: key, Delta: delta, Down: down}
	req, err := k.Append(nil, message.Increment)
	resp, err := c.call(ctx, k.Hash, message.Increment, req, err)
	if err != nil {
		return 0, err
	}
	var n [2]uint64
	err = message.ParseNumbers(resp, n[:])
	return n[0], err
}

// Touch gives an item another life, in seconds from now; 0: for ever. It returns the item.
func (c *Client) Touch(ctx context.Context, key []byte, life uint32) (message.Value, error) {
	k := message.Keyed{Hash: mica.Hash(key), Key: key, Life: life}
	req, err := k.Append(nil, message.Touch)
	resp, err := c.call(ctx, k.Hash, message.Touch, req, err)
	if err != nil {
		return message.Value{}, err
	}
	return message.ParseFound(resp)
}
