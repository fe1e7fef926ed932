package server

import (
	"bytes"
	"errors"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/durable"
	"github.com/userspace-rpc/erpc/index/message"
)

// Bytes serves an index.Bytes: values of any length up to message.MaxValue. It has request types of
// its own, so that one Nexus may serve a Service too.
type Bytes struct {
	m      *index.Bytes
	cfg    Config
	writes writes[[]byte]
}

// NewBytes returns a Bytes of m.
func NewBytes(m *index.Bytes, cfg Config) *Bytes { return NewDurableBytes(m, nil, cfg) }

// NewDurableBytes is NewDurable for a Bytes.
func NewDurableBytes(m *index.Bytes, log *durable.Store[[]byte], cfg Config) *Bytes {
	return &Bytes{m: m, cfg: cfg, writes: writes[[]byte]{m: m, log: log, memory: cfg.Memory,
		parse: message.ParsePutBytes, give: give}}
}

// Register adds the handlers to a Nexus, before its first Rpc. Errors: those of
// erpc.Nexus.Register.
func (s *Bytes) Register(n Registrar) error {
	scans := erpc.Background
	if s.cfg.ScanInLoop {
		scans = erpc.Dispatch
	}
	err := n.Register(message.ScanBytes, scans, s.scanHandler)
	if s.cfg.OneByOne {
		err = errors.Join(err, n.Register(message.GetBytes, erpc.Dispatch, s.get))
	} else {
		err = errors.Join(err, n.RegisterBatch(message.GetBytes, s.gets))
	}
	for typ, fn := range s.inLoop() {
		err = errors.Join(err, n.Register(typ, erpc.Dispatch, fn))
	}
	return err
}

// Handle adds the handlers to a Server, before it serves. Errors: those of erpc.Nexus.Register.
func (s *Bytes) Handle(srv *erpc.Server) error {
	var err error
	if s.cfg.ScanInLoop {
		err = srv.HandleInline(message.ScanBytes, s.scanHandler)
	} else {
		err = srv.HandleBorrowed(message.ScanBytes, answer(s.scan).background)
	}
	if s.cfg.OneByOne {
		err = errors.Join(err, srv.HandleInline(message.GetBytes, s.get))
	} else {
		err = errors.Join(err, srv.HandleBatch(message.GetBytes, s.gets))
	}
	for typ, fn := range s.inLoop() {
		err = errors.Join(err, srv.HandleInline(typ, fn))
	}
	return err
}

func (s *Bytes) inLoop() map[uint8]erpc.Handler {
	return map[uint8]erpc.Handler{message.PutBytes: s.writes.handler(durable.Put),
		message.AbsentBytes: s.writes.handler(durable.PutIfAbsent),
		message.DeleteBytes: s.writes.handler(durable.Delete)}
}

// give answers with a value, or with nothing.
func give(h erpc.ReqHandle, value []byte, there bool) {
	buf, err := h.Alloc(message.FoundSize(value, there))
	if err != nil {
		_ = h.RespondError(err) // the session may have ended
		return
	}
	message.PutFound(buf.Bytes(), value)
	if h.Respond(buf) != nil {
		buf.Free() // the client has gone
	}
}

func (s *Bytes) get(h erpc.ReqHandle) {
	key, err := message.ParseKey(h.Data())
	if err != nil {
		refuse(h, err)
		return
	}
	value, there := s.m.Get(key)
	give(h, value, there)
}

// gets answers a burst.
func (s *Bytes) gets(reqs []erpc.ReqHandle) {
	var keys, values [erpc.MaxBatch][]byte
	var there [erpc.MaxBatch]bool
	n := 0
	for _, h := range reqs {
		key, err := message.ParseKey(h.Data())
		if err != nil {
			refuse(h, err)
			continue
		}
		reqs[n], keys[n] = h, key
		n++
	}
	s.m.GetBatch(keys[:n], values[:], there[:])
	for i, h := range reqs[:n] {
		give(h, values[i], there[i])
	}
}

func (s *Bytes) scanHandler(h erpc.ReqHandle) {
	resp, err := s.scan(nil, h.Data())
	if err != nil {
		refuse(h, err)
		return
	}
	_ = h.RespondBytes(resp) // the client gets its errors
}

// scan answers a request for keys and values.
func (s *Bytes) scan(buf, req []byte) ([]byte, error) {
	p, err := message.ParsePage(req)
	if err != nil {
		return nil, err
	}
	start, n := len(buf), uint32(0)
	buf = append(buf, 0)
	for key, value := range s.m.Ascend(p.Key) {
		switch {
		case p.After && bytes.Equal(key, p.Key):
			continue
		case n == p.Count:
			return buf, nil
		case n == message.MaxEntries || len(buf)-start >= message.MaxBytesPage:
			buf[start] = message.More
			return buf, nil
		}
		buf = message.AppendBytesEntry(buf, key, value)
		n++
	}
	return buf, nil
}
