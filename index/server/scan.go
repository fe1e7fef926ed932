package server

import (
	"bytes"
	"context"
	"slices"

	"github.com/userspace-rpc/erpc/index/message"
)

// background is fn as a handler of an erpc.Server.
func (fn answer) background(_ context.Context, req []byte) ([]byte, error) {
	resp, err := fn(nil, req)
	if err != nil {
		return nil, fault(err)
	}
	return resp, nil
}

// sum answers a request for a sum. The common one is that of the paper: some keys after a key.
func (s *Service) sum(buf, req []byte) ([]byte, error) {
	p, err := message.ParsePage(req)
	if err != nil {
		return nil, err
	}
	var t message.Total
	if p.After && p.Count <= message.MaxSum {
		sum, n := s.m.SumAfter(p.Key, int(p.Count))
		t.Sum, t.Count = sum, uint32(n)
		return t.Append(buf), nil
	}
	t.More = s.page(p, message.MaxSum, func(key []byte, value uint64) {
		t.Sum += value
		t.Count++
		t.Last = append(t.Last[:0], key...)
	})
	if !t.More {
		t.Last = nil
	}
	return t.Append(buf), nil
}

// entrySize is how long an entry is expected to be: that of a key of 8 bytes.
const entrySize = 1 + 8 + 8

// scan answers a request for keys and values.
func (s *Service) scan(buf, req []byte) ([]byte, error) {
	p, err := message.ParsePage(req)
	if err != nil {
		return nil, err
	}
	start := len(buf)
	buf = append(slices.Grow(buf, 1+entrySize*int(min(p.Count, message.MaxEntries))), 0)
	more := s.page(p, message.MaxEntries, func(key []byte, value uint64) {
		buf = message.AppendEntry(buf, key, value)
	})
	if more {
		buf[start] = message.More
	}
	return buf, nil
}

// page calls fn for at most limit keys of what p asks for, and reports whether there are more.
func (s *Service) page(p message.Page, limit int, fn func(key []byte, value uint64)) (more bool) {
	n := min(int(p.Count), limit)
	left := n
	if n == 0 {
		return false
	}
	// Two beside these: the key itself, and one that says whether there are more.
	s.m.Scan(p.Key, n+2, func(key []byte, value uint64) bool {
		if p.After && bytes.Equal(key, p.Key) {
			return true
		}
		if left == 0 {
			more = true
			return false
		}
		fn(key, value)
		left--
		return left > 0 || n == limit && int(p.Count) > limit
	})
	return more
}
