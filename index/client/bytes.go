package client

import (
	"context"

	"github.com/userspace-rpc/erpc/index/message"
)

// Bytes is a Client of servers whose values have any length; see server.Bytes.
type Bytes struct{ c Client }

// NewBytes returns a Bytes. The error is ErrRanges.
func NewBytes(ranges Ranges[Caller]) (*Bytes, error) {
	c, err := New(ranges)
	if err != nil {
		return nil, err
	}
	return &Bytes{*c}, nil
}

// value asks the server of key for a value.
func (b *Bytes) value(
	ctx context.Context, typ uint8, key, req []byte, err error,
) ([]byte, bool, error) {
	if err != nil {
		return nil, false, err
	}
	resp, err := b.c.ranges[b.c.ranges.find(key)].Server.Call(ctx, typ, req)
	if err != nil {
		return nil, false, wrong(err)
	}
	return message.ParseFound(resp)
}

// Get returns the value of key, which is the caller's. Errors: index.ErrKeyTooLong,
// message.ErrResponse, those of the call.
func (b *Bytes) Get(ctx context.Context, key []byte) (value []byte, ok bool, err error) {
	req, err := message.AppendKey(nil, key)
	return b.value(ctx, message.GetBytes, key, req, err)
}

// Put stores a value and returns the one that it replaces, if there was one. Errors: those of Get,
// message.ErrValueTooLarge, message.ErrFull, message.ErrReadOnly.
func (b *Bytes) Put(
	ctx context.Context, key, value []byte,
) (old []byte, replaced bool, err error) {
	req, err := message.AppendPutBytes(nil, key, value)
	return b.value(ctx, message.PutBytes, key, req, err)
}

// PutIfAbsent stores a value if key has none. Otherwise it returns the one that is there. Errors:
// those of Put.
func (b *Bytes) PutIfAbsent(
	ctx context.Context, key, value []byte,
) (there []byte, present bool, err error) {
	req, err := message.AppendPutBytes(nil, key, value)
	return b.value(ctx, message.AbsentBytes, key, req, err)
}

// Delete removes a key and returns its value, if it was there. Errors: those of Get,
// message.ErrReadOnly.
func (b *Bytes) Delete(ctx context.Context, key []byte) (old []byte, deleted bool, err error) {
	req, err := message.AppendKey(nil, key)
	return b.value(ctx, message.DeleteBytes, key, req, err)
}

// Scan calls fn for the first n keys from a key on, in order, until fn returns false. It returns
// how many calls there were. fn may keep key and value. Errors: those of Get.
func (b *Bytes) Scan(
	ctx context.Context, from []byte, n uint64, fn func(key, value []byte) bool,
) (seen uint64, err error) {
	p := message.Page{Key: from}
	err = b.c.pages(ctx, message.ScanBytes, p, n, func(resp []byte) ([]byte, int, error) {
		e, err := message.ParseBytesEntries(resp)
		if err != nil {
			return nil, 0, err
		}
		var last []byte
		got := 0
		for key, value, ok := e.Next(); ok; key, value, ok = e.Next() {
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
