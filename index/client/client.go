package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/message"
)

// ErrRanges means that a map of ranges is empty, does not begin with the empty key, or is not in
// order.
var ErrRanges = errors.New("index: bad map of ranges")

// Range is a server that has the keys from one on, up to the next range.
type Range[S any] struct {
	From   []byte
	Server S
}

// Ranges is which server has which keys, in order of From. The first one begins with the empty key.
type Ranges[S any] []Range[S]

// One is the map of a single server.
func One[S any](server S) Ranges[S] { return Ranges[S]{{nil, server}} }

func (r Ranges[S]) check() error {
	if len(r) == 0 || len(r[0].From) != 0 {
		return fmt.Errorf("%w: it must begin with the empty key", ErrRanges)
	}
	for i := range r[1:] {
		if from := r[i+1].From; bytes.Compare(r[i].From, from) >= 0 || len(from) > index.MaxKey {
			return fmt.Errorf("%w: range %d begins with %q, behind %q", ErrRanges, i+1, from, r[i].From)
		}
	}
	return nil
}

// find returns the number of the range that key belongs to.
func (r Ranges[S]) find(key []byte) int {
	return sort.Search(len(r)-1, func(i int) bool { return bytes.Compare(r[i+1].From, key) > 0 })
}

// Caller calls one server; *erpc.Client and *erpc.Pool are such.
type Caller interface {
	Call(ctx context.Context, reqType uint8, request []byte) ([]byte, error)
}

// Client is for any number of goroutines. The callers are the application's: they outlive the
// Client, which needs no end.
type Client struct{ ranges Ranges[Caller] }

// New returns a Client. The error is ErrRanges.
func New(ranges Ranges[Caller]) (*Client, error) {
	if err := ranges.check(); err != nil {
		return nil, err
	}
	return &Client{ranges}, nil
}

// wrong gives what a server refused the name that it has here.
func wrong(err error) error {
	var e *erpc.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	for _, known := range []error{index.ErrKeyTooLong, message.ErrValueTooLarge, message.ErrRequest,
		message.ErrFull, message.ErrReadOnly} {
		if strings.HasPrefix(e.Text, known.Error()) {
			return &named{err, known}
		}
	}
	return err
}

// named is an error of the server that is one of this side, too.
type named struct {
	error
	known error
}

// Unwrap returns both.
func (n *named) Unwrap() []error { return []error{n.known, n.error} }

// value asks the server of key for a value.
func (c *Client) value(
	ctx context.Context, typ uint8, key, req []byte, err error,
) (uint64, bool, error) {
	if err != nil {
		return 0, false, err
	}
	resp, err := c.ranges[c.ranges.find(key)].Server.Call(ctx, typ, req)
	if err != nil {
		return 0, false, wrong(err)
	}
	return message.ParseValue(resp)
}

// Get returns the value of key. Errors: index.ErrKeyTooLong, message.ErrResponse, those of the
// call.
func (c *Client) Get(ctx context.Context, key []byte) (value uint64, ok bool, err error) {
	req, err := message.AppendKey(nil, key)
	return c.value(ctx, message.Get, key, req, err)
}

// Put stores a value and returns the one that it replaces, if there was one. Errors: those of Get,
// message.ErrFull, message.ErrReadOnly.
func (c *Client) Put(
	ctx context.Context, key []byte, value uint64,
) (old uint64, replaced bool, err error) {
	req, err := message.AppendPut(nil, key, value)
	return c.value(ctx, message.Put, key, req, err)
}

// PutIfAbsent stores a value if key has none. Otherwise it returns the one that is there. Errors:
// those of Put.
func (c *Client) PutIfAbsent(
	ctx context.Context, key []byte, value uint64,
) (there uint64, present bool, err error) {
	req, err := message.AppendPut(nil, key, value)
	return c.value(ctx, message.Absent, key, req, err)
}

// Delete removes a key and returns its value, if it was there. Errors: those of Get,
// message.ErrReadOnly.
func (c *Client) Delete(ctx context.Context, key []byte) (old uint64, deleted bool, err error) {
	req, err := message.AppendKey(nil, key)
	return c.value(ctx, message.Delete, key, req, err)
}

// Len returns how many keys all servers have together. Errors: message.ErrResponse, those of the
// calls.
func (c *Client) Len(ctx context.Context) (n uint64, err error) {
	for _, r := range c.ranges {
		resp, err := r.Server.Call(ctx, message.Count, nil)
		if err != nil {
			return 0, wrong(err)
		}
		keys, _, err := message.ParseValue(resp)
		if err != nil {
			return 0, err
		}
		n += keys
	}
	return n, nil
}

// SumAfter adds the values of the n keys that come after key, or fewer if there are no more. It
// asks as many servers, and as often, as it takes. Errors: those of Get.
func (c *Client) SumAfter(
	ctx context.Context, key []byte, n uint64,
) (sum, count uint64, err error) {
	p := message.Page{Key: key, After: true}
	err = c.pages(ctx, message.Sum, p, n, func(resp []byte) (last []byte, got int, err error) {
		t, err := message.ParseTotal(resp)
		sum += t.Sum
		count += uint64(t.Count)
		return t.Last, int(t.Count), err
	})
	return sum, count, err
}

// Scan calls fn for the first n keys from a key on, in order, until fn returns false. It returns
// how many calls there were. fn may keep the key. Errors: those of Get.
func (c *Client) Scan(
	ctx context.Context, from []byte, n uint64, fn func(key []byte, value uint64) bool,
) (seen uint64, err error) {
	p := message.Page{Key: from}
	err = c.pages(ctx, message.Scan, p, n, func(resp []byte) (last []byte, got int, err error) {
		e, err := message.ParseEntries(resp)
		if err != nil {
			return nil, 0, err
		}
		for {
			key, value, ok := e.Next()
			if !ok {
				break
			}
			last = key
			seen++
			if got++; !fn(key, value) {
				return nil, got, errEnough
			}
		}
		if !e.More() {
			last = nil
		}
		return last, got, nil
	})
	if err == errEnough {
		err = nil
	}
	return seen, err
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

// pages asks for n keys, from p on. take says how many keys an answer has, and what the last one is
// if the same server may have more.
func (c *Client) pages(
	ctx context.Context, typ uint8, p message.Page, n uint64,
	take func(resp []byte) (last []byte, got int, err error),
) error {
	for cur := (cursor{p, c.ranges.find(p.Key), n}); !cur.over(len(c.ranges)); {
		req, err := cur.request(nil)
		if err != nil {
			return err
		}
		resp, err := c.ranges[cur.at].Server.Call(ctx, typ, req)
		if err != nil {
			return wrong(err)
		}
		last, got, err := take(resp)
		if err == nil {
			err = cur.pass(last, got)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cursor is where a scan is: at a page of range at, with n keys to go.
type cursor struct {
	page message.Page
	at   int
	n    uint64
}

// over reports whether a scan of so many ranges has come to its end.
func (c *cursor) over(ranges int) bool { return c.n == 0 || c.at >= ranges }

// request appends the request for what comes next.
func (c *cursor) request(buf []byte) ([]byte, error) {
	c.page.Count = uint32(min(c.n, 1<<32-1))
	return c.page.Append(buf)
}

// pass goes on behind an answer with so many keys: after the last one, or in the next range if last
// is nil. It refers to last. The error is message.ErrResponse.
func (c *cursor) pass(last []byte, got int) error {
	back := bytes.Compare(last, c.page.Key)
	switch {
	case uint64(got) > c.n:
		return fmt.Errorf("%w: %d keys, %d asked for", message.ErrResponse, got, c.n)
	case last == nil:
		c.at++
		c.page = message.Page{}
	case got == 0 || back < 0 || back == 0 && c.page.After:
		return fmt.Errorf("%w: a scan went back", message.ErrResponse)
	default:
		c.page.Key, c.page.After = last, true
	}
	c.n -= uint64(got)
	return nil
}
