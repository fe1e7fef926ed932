package server

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/durable"
	"github.com/userspace-rpc/erpc/index/message"
)

// Config says how requests are run. The zero value is for use.
type Config struct {
	ScanInLoop bool    // SCAN and SUM run in the event loop, in place of background workers
	OneByOne   bool    // each GET is looked up by itself; for measurements
	Memory     *Memory // nil: memory has no limit
}

// Service serves a map.
type Service struct {
	m      *index.Map
	cfg    Config
	writes writes[uint64]
}

// New returns a Service of m.
func New(m *index.Map, cfg Config) *Service { return NewDurable(m, nil, cfg) }

// NewDurable returns a Service of m whose writes go by its log. They are answered as the Policy of
// the log says. While the disk does not keep up, they wait.
func NewDurable(m *index.Map, log *durable.Store[uint64], cfg Config) *Service {
	return &Service{m: m, cfg: cfg, writes: writes[uint64]{m: m, log: log, memory: cfg.Memory,
		parse: message.ParsePut,
		give: func(h erpc.ReqHandle, old uint64, there bool) {
			var buf [8]byte
			_ = h.RespondBytes(message.AppendValue(buf[:0], old, there)) // the client gets its errors
		}}}
}

// Changes returns how often requests may have changed the map. Any goroutine may ask: what was
// stored before is in the map by then.
func (s *Service) Changes() uint64 { return s.writes.changes.Load() }

// Registrar takes handlers. An erpc.Nexus is one.
type Registrar interface {
	Register(typ uint8, mode erpc.Mode, fn erpc.Handler) error
	RegisterBatch(typ uint8, fn erpc.BatchHandler) error
}

// Register adds the handlers of a Service to a Nexus, before its first Rpc. Errors: those of
// erpc.Nexus.Register.
func (s *Service) Register(n Registrar) error {
	scans := erpc.Background
	if s.cfg.ScanInLoop {
		scans = erpc.Dispatch
	}
	var err error
	if s.cfg.OneByOne {
		err = n.Register(message.Get, erpc.Dispatch, s.handler(s.get))
	} else {
		err = n.RegisterBatch(message.Get, s.gets)
	}
	for typ, fn := range s.inLoop() {
		err = errors.Join(err, n.Register(typ, erpc.Dispatch, fn))
	}
	return errors.Join(err, n.Register(message.Sum, scans, s.handler(s.sum)),
		n.Register(message.Scan, scans, s.handler(s.scan)))
}

// Handle adds the handlers to a Server, before it serves. Errors: those of erpc.Nexus.Register.
func (s *Service) Handle(srv *erpc.Server) error {
	var err error
	if s.cfg.OneByOne {
		err = srv.HandleInline(message.Get, s.handler(s.get))
	} else {
		err = srv.HandleBatch(message.Get, s.gets)
	}
	for typ, fn := range s.inLoop() {
		err = errors.Join(err, srv.HandleInline(typ, fn))
	}
	for typ, fn := range map[uint8]answer{message.Sum: s.sum, message.Scan: s.scan} {
		if s.cfg.ScanInLoop {
			err = errors.Join(err, srv.HandleInline(typ, s.handler(fn)))
		} else {
			err = errors.Join(err, srv.HandleBorrowed(typ, fn.background))
		}
	}
	return err
}

// inLoop returns what runs in the event loop beside GETs.
func (s *Service) inLoop() map[uint8]erpc.Handler {
	return map[uint8]erpc.Handler{message.Put: s.writes.handler(durable.Put),
		message.Absent: s.writes.handler(durable.PutIfAbsent),
		message.Delete: s.writes.handler(durable.Delete), message.Count: s.handler(s.count)}
}

// answer appends the response to a request to buf.
type answer func(buf, req []byte) ([]byte, error)

// handler answers by fn.
func (s *Service) handler(fn answer) erpc.Handler {
	return func(h erpc.ReqHandle) {
		var buf [64]byte
		resp, err := fn(buf[:0], h.Data())
		if err != nil {
			refuse(h, err)
			return
		}
		_ = h.RespondBytes(resp) // the client gets its errors
	}
}

// gets answers a burst of GETs.
func (s *Service) gets(reqs []erpc.ReqHandle) {
	var keys [erpc.MaxBatch][]byte
	var values [erpc.MaxBatch]uint64
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
		var buf [8]byte
		_ = h.RespondBytes(message.AppendValue(buf[:0], values[i], there[i]))
	}
}

func (s *Service) get(buf, req []byte) ([]byte, error) {
	key, err := message.ParseKey(req)
	if err != nil {
		return nil, err
	}
	v, ok := s.m.Get(key)
	return message.AppendValue(buf, v, ok), nil
}

func (s *Service) count(buf, req []byte) ([]byte, error) {
	if len(req) != 0 {
		return nil, fmt.Errorf("%w: a count of %d bytes", message.ErrRequest, len(req))
	}
	return message.AppendValue(buf, uint64(s.m.Len()), true), nil
}
