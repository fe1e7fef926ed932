package debug

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/flight"
)

// maxRecord bounds what a peer may have recorded, in datagrams per loop.
const maxRecord = 1 << 20

// About describes a program with a debug socket.
type About struct {
	Program   string           // the name of its file
	PID       int              // of its process
	Loops     int              // that there are now
	Recording int              // datagrams that each loop keeps, as far as it answers; 0: none
	TypeNames map[uint8]string `json:",omitempty"` // of request types
}

// routes returns what the socket serves.
func (s *Socket) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/about", s.serveAbout)
	mux.HandleFunc("GET /v1/snapshots", s.serveSnapshots)
	mux.HandleFunc("GET /v1/flight", s.serveFlight)
	mux.HandleFunc("POST /v1/record", s.serveRecord)
	return mux
}

// within is the context of a request, which ends after Config.Timeout.
func (s *Socket) within(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), s.cfg.Timeout)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the peer has gone
}

// number reads a parameter that must be between 0 and most; 0 if it is missing.
func number(w http.ResponseWriter, r *http.Request, name string, most int) (int, bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		http.Error(w, name+": want a number from 0 to "+strconv.Itoa(most), http.StatusBadRequest)
		return 0, false
	}
	return n, true
}

func (s *Socket) serveAbout(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := s.within(r)
	defer cancel()
	var most atomic.Int64
	_ = s.each(func(r *erpc.Rpc) error { // a loop that does not answer is left out
		n, err := r.Recording(ctx)
		for old := most.Load(); int64(n) > old && !most.CompareAndSwap(old, int64(n)); {
			old = most.Load()
		}
		return err
	})
	reply(w, About{
		Program: filepath.Base(os.Args[0]), PID: os.Getpid(), Loops: len(rpcsOf(s.watched)),
		Recording: int(most.Load()), TypeNames: s.cfg.TypeNames,
	})
}

func (s *Socket) serveSnapshots(w http.ResponseWriter, r *http.Request) {
	n, ok := number(w, r, "sessions", erpc.MaxLook)
	if !ok {
		return
	}
	ctx, cancel := s.within(r)
	defer cancel()
	reply(w, erpc.Snapshots(ctx, erpc.SnapshotOptions{Sessions: n}, s.watched...))
}

func (s *Socket) serveRecord(w http.ResponseWriter, r *http.Request) {
	n, ok := number(w, r, "n", maxRecord)
	if !ok {
		return
	}
	ctx, cancel := s.within(r)
	defer cancel()
	if err := s.each(func(r *erpc.Rpc) error { return r.Record(ctx, n) }); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Socket) serveFlight(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := s.within(r)
	defer cancel()
	dumps := s.Flight(ctx)
	w.Header().Set("Content-Type", "application/octet-stream")
	_ = flight.Write(w, dumps...) // the peer has gone
}

// Flight takes the records of all loops that record. The dump of a loop that does not answer before
// ctx ends has Late set and nothing else; its record stays.
func (s *Socket) Flight(ctx context.Context) (dumps []*flight.Dump) {
	var mu sync.Mutex
	_ = s.each(func(r *erpc.Rpc) error {
		d, err := r.Flight(ctx)
		if err != nil {
			d = &flight.Dump{Own: r.LocalAddr(), Late: true}
		}
		if d != nil {
			mu.Lock()
			dumps = append(dumps, d)
			mu.Unlock()
		}
		return nil
	})
	return dumps
}
