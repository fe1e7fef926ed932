package client

import "github.com/userspace-rpc/erpc/index/message"

// scan is a scan of a Loop.
type scan struct {
	cursor
	seen  uint64
	visit func(key []byte, value uint64) bool
	key   [message.MaxRequest]byte // of the cursor's page
}

// Scan calls visit for the first n keys from a key on, in order, until visit returns false, and
// then done. It asks as many servers, and as often, as it takes, and allocates its own state. A key
// is valid until visit returns. Errors are those of Get; if there is one done is not called.
func (l *Loop) Scan(
	from []byte, n, tag uint64, visit func(key []byte, value uint64) bool, done Done,
) error {
	s := &scan{visit: visit}
	s.cursor = cursor{message.Page{Key: from}, l.ranges.find(from), n}
	return l.next(operation{done: done, tag: tag, typ: message.Scan, scan: s})
}

// next asks for the next page of a scan.
func (l *Loop) next(o operation) error {
	var buf [message.MaxRequest]byte
	req, err := o.scan.request(buf[:0])
	if err != nil {
		return err
	}
	return l.send(o.scan.at, req, o)
}

// scanned visits the keys of a page, and asks for the next one if there is one.
func (l *Loop) scanned(o operation, resp []byte) (goesOn bool, err error) {
	e, err := message.ParseEntries(resp)
	if err != nil {
		return false, err
	}
	s := o.scan
	var last []byte
	got := 0
	for key, value, ok := e.Next(); ok; key, value, ok = e.Next() {
		if got++; uint64(got) > s.n {
			break // pass says so
		}
		last = key
		s.seen++
		if !s.visit(key, value) {
			return false, nil
		}
	}
	if !e.More() {
		last = nil
	}
	if err := s.pass(last, got); err != nil {
		return false, err
	}
	if s.over(len(l.ranges)) {
		return false, nil
	}
	s.page.Key = append(s.key[:0], s.page.Key...)
	err = l.next(o)
	return err == nil, err
}
