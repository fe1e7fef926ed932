package jakiro

import (
	"errors"

	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/rfp"
)

// Types of requests.
const (
	Get uint8 = iota + 1
	Put
	Delete
)

// ErrRequest is the answer to a request that is none.
var ErrRequest = errors.New("jakiro: malformed request")

// Store is a partition behind a server.
type Store struct{ part *mica.Partition }

// Attach makes a partition the store of a server, which owns it from now on. The server's goroutine
// is the partition's owner.
func Attach(s *rfp.Server, part *mica.Partition) *Store {
	st := &Store{part}
	s.Handle(Get, st.get)
	s.Handle(Put, st.put)
	s.Handle(Delete, st.delete)
	return st
}

// Warm fetches the index lines of a message's keys ahead of its handlers. It is for
// rfp.ServerConfig.
func (s *Store) Warm(kinds []uint8, reqs [][]byte) {
	var hashes [32]mica.KeyHash
	n := 0
	for i, req := range reqs {
		key := req
		if kinds[i] == Put {
			var ok bool
			if key, _, ok = SplitPut(req); !ok {
				continue
			}
		}
		hashes[n] = s.part.Hash(key)
		if n++; n == len(hashes) {
			s.part.Warm(hashes[:n])
			n = 0
		}
	}
	s.part.Warm(hashes[:n])
}

func (s *Store) get(key, resp []byte) ([]byte, error) {
	if len(key) < mica.MinKey || len(key) > mica.MaxKey {
		return nil, ErrRequest
	}
	item, ok := s.part.Get(s.part.Hash(key), key)
	if !ok {
		return append(resp, 0), nil
	}
	return append(append(resp, 1), item.Value...), nil
}

func (s *Store) put(req, resp []byte) ([]byte, error) {
	key, value, ok := SplitPut(req)
	if !ok {
		return nil, ErrRequest
	}
	if err := s.part.Put(s.part.Hash(key), key, value); err != nil {
		return nil, err
	}
	return append(resp, 1), nil
}

func (s *Store) delete(key, resp []byte) ([]byte, error) {
	if len(key) < mica.MinKey || len(key) > mica.MaxKey {
		return nil, ErrRequest
	}
	err := s.part.Delete(s.part.Hash(key), key, 0)
	switch {
	case err == nil:
		return append(resp, 1), nil
	case errors.Is(err, mica.ErrNotFound):
		return append(resp, 0), nil
	}
	return nil, err
}

// AppendPut appends the request of a PUT.
func AppendPut(b, key, value []byte) []byte {
	return append(append(append(b, byte(len(key))), key...), value...)
}

// SplitPut reads the request of a PUT. Key and value are parts of it.
func SplitPut(req []byte) (key, value []byte, ok bool) {
	if len(req) < 1 || req[0] == 0 || len(req) < 1+int(req[0]) {
		return nil, nil, false
	}
	n := 1 + int(req[0])
	return req[1:n], req[n:], true
}

// Value reads the result of a GET. The value is a part of it.
func Value(resp []byte) (value []byte, found bool) {
	if len(resp) == 0 || resp[0] != 1 {
		return nil, false
	}
	return resp[1:], true
}
