package message_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/message"
)

// FuzzMessages: whatever comes, a parser answers or names the error, and what it takes it gives
// back byte for byte.
func FuzzMessages(f *testing.F) {
	page, _ := message.Page{Key: []byte("key"), After: true, Count: 128}.Append(nil)
	put, _ := message.AppendPut(nil, []byte("key"), 7)
	entries := message.AppendEntry(message.AppendEntry([]byte{message.More}, nil, 1), []byte("k"), 2)
	total := message.Total{Count: 3, Sum: 4, More: true, Last: []byte("last")}.Append(nil)
	bytesEntries := message.AppendBytesEntry([]byte{0}, []byte("k"), []byte("value"))
	for _, b := range [][]byte{page, put, entries, bytesEntries, total, nil,
		{0}, {1}, make([]byte, 300)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(got []byte, err error, may ...error) {
			t.Helper()
			for _, e := range may {
				if errors.Is(err, e) {
					return
				}
			}
			if err != nil || !bytes.Equal(got, b) {
				t.Errorf("%x from %x, %v", got, b, err)
			}
		}
		again := func(got []byte, err error) []byte {
			if err != nil {
				t.Errorf("not written again: %v", err)
			}
			return got
		}
		if key, err := message.ParseKey(b); err != nil {
			same(nil, err, index.ErrKeyTooLong)
		} else {
			same(again(message.AppendKey(nil, key)), err)
		}
		if key, v, err := message.ParsePut(b); err != nil {
			same(nil, err, index.ErrKeyTooLong, message.ErrRequest)
		} else {
			same(again(message.AppendPut(nil, key, v)), err)
		}
		if p, err := message.ParsePage(b); err != nil {
			same(nil, err, index.ErrKeyTooLong, message.ErrRequest)
		} else {
			same(again(p.Append(nil)), err)
		}
		if v, there, err := message.ParseValue(b); err != nil {
			same(nil, err, message.ErrResponse)
		} else {
			same(message.AppendValue(nil, v, there), err)
		}
		if total, err := message.ParseTotal(b); err != nil {
			same(nil, err, message.ErrResponse)
		} else {
			same(total.Append(nil), err)
		}
		if key, v, err := message.ParsePutBytes(b); err != nil {
			same(nil, err, message.ErrRequest)
		} else {
			same(again(message.AppendPutBytes(nil, key, v)), err)
		}
		if v, there, err := message.ParseFound(b); err != nil {
			same(nil, err, message.ErrResponse)
		} else {
			resp := make([]byte, message.FoundSize(v, there))
			message.PutFound(resp, v)
			same(resp, err)
		}
		if e, err := message.ParseBytesEntries(b); err != nil {
			same(nil, err, message.ErrResponse)
		} else {
			list := []byte{b[0]}
			for key, v, ok := e.Next(); ok; key, v, ok = e.Next() {
				list = message.AppendBytesEntry(list, key, v)
			}
			same(list, nil)
		}
		e, err := message.ParseEntries(b)
		if err != nil {
			same(nil, err, message.ErrResponse)
			return
		}
		list := []byte{0}
		if e.More() {
			list[0] = message.More
		}
		for {
			key, v, ok := e.Next()
			if !ok {
				break
			}
			list = message.AppendEntry(list, key, v)
		}
		same(list, nil)
	})
}
