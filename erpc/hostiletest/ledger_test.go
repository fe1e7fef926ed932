package hostiletest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/userspace-rpc/erpc/erpc"
)

// fate is how a call ended, for its caller.
type fate uint8

const (
	underway fate = iota
	answered      // the response, or the error of the handler
	unsent        // an error that says that the request never ran
	unknown       // an error after which it may have run
)

// fateOf tells errors apart as erpc/errors.go does. It returns false for errors that no call here
// should end with.
func fateOf(err error) (f fate, ok bool) {
	if err == nil {
		return answered, true
	}
	remote := new(erpc.Error)
	if errors.As(err, &remote) {
		switch {
		case remote.NotRun:
			return unsent, true
		case remote.Reason == erpc.ReasonApplication:
			return answered, true
		}
		return unknown, true
	}
	if errors.Is(err, erpc.ErrNotRun) {
		return unsent, true
	}
	for _, e := range []error{
		erpc.ErrPeerLost, erpc.ErrPeerRestarted, erpc.ErrOutOfStep, erpc.ErrDeadline,
		erpc.ErrCancelled, erpc.ErrClosed, erpc.ErrPeerClosed,
	} {
		if errors.Is(err, e) {
			return unknown, true
		}
	}
	return underway, false
}

// ledger knows each request by its id: how often it ran, and how its call ended.
type ledger struct {
	mu     sync.Mutex
	runs   []uint8 // by id
	fates  []fate
	alien  int            // runs of requests that nobody made
	damage int            // calls whose answer was another request's, or none's
	kinds  map[string]int // errors, by their text
	notes  []string       // what went wrong first
}

func newLedger() *ledger { return &ledger{kinds: map[string]int{}} }

// next returns the id of a new request.
func (y *ledger) next() uint64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.runs, y.fates = append(y.runs, 0), append(y.fates, underway)
	return uint64(len(y.runs) - 1)
}

// ran notes that a handler got a request.
func (y *ledger) ran(id uint64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if id >= uint64(len(y.runs)) {
		y.alien++
		return
	}
	y.runs[id] = min(y.runs[id], 254) + 1
}

// ended notes how the call of a request ended; bad names the fault of its answer.
func (y *ledger) ended(id uint64, f fate, err error, bad string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.fates[id] = f
	if err != nil {
		y.kinds[err.Error()]++
	}
	if bad != "" {
		y.damage++
		y.note("request %d: %s", id, bad)
	}
}

func (y *ledger) note(format string, args ...any) {
	if len(y.notes) < 20 {
		y.notes = append(y.notes, fmt.Sprintf(format, args...))
	}
}

// sum holds the totals of a ledger.
type sum struct {
	Calls, Answered, Unsent, Unknown, Underway int
	Twice                                      int // requests that ran more than once
	Lost                                       int // answered requests that never ran
	Wrong                                      int // unsent requests that ran
	Alien, Damage                              int
}

// sum counts. It is right once nothing runs any more.
func (y *ledger) sum() (s sum) {
	y.mu.Lock()
	defer y.mu.Unlock()
	s.Calls, s.Alien, s.Damage = len(y.runs), y.alien, y.damage
	for id, n := range y.runs {
		f := y.fates[id]
		switch f {
		case underway:
			s.Underway++
		case answered:
			s.Answered++
		case unsent:
			s.Unsent++
		case unknown:
			s.Unknown++
		}
		if n > 1 {
			s.Twice++
			y.note("request %d ran %d times", id, n)
		}
		if f == answered && n == 0 {
			s.Lost++
			y.note("request %d was answered and did not run", id)
		}
		if f == unsent && n > 0 {
			s.Wrong++
			y.note("request %d ran, though its error says that it was not sent", id)
		}
	}
	return s
}

// ranOf returns how many of n requests ran, from the one with an id on.
func (y *ledger) ranOf(id uint64, n int) (ran int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, times := range y.runs[id:][:n] {
		if times > 0 {
			ran++
		}
	}
	return ran
}

// check fails the test unless each call ended, answered calls ran once and no call ran twice.
// Without strict only the ends of the calls count.
func (y *ledger) check(l *lab, strict bool) sum {
	l.Helper()
	s := y.sum()
	l.Logf("%+v", s)
	for _, k := range slices.Sorted(maps.Keys(y.kinds)) {
		l.Logf("%6d %s", y.kinds[k], k)
	}
	if s.Underway != 0 || strict && s.Twice+s.Lost+s.Wrong+s.Alien+s.Damage != 0 {
		l.Errorf("seed %d: %+v\n%q", l.seed, s, y.notes)
	}
	return s
}

// key makes answers a function of requests that no network knows.
const key = "only the two ends know this"

// The request types of the servers.
const (
	typeWorker = 1 // in a goroutine of the pool
	typeInline = 2 // in the event loop
)

// least is the size of the smallest request, bytes: its id, and how large the answer may be.
const least = 12

// request returns the request with an id, and contents that no other has.
func request(id uint64, size, most int) []byte {
	b := make([]byte, max(size, least))
	binary.LittleEndian.PutUint64(b, id)
	binary.LittleEndian.PutUint32(b[8:], uint32(most))
	fill(b[least:], id)
	return b
}

func fill(b []byte, seed uint64) {
	r := rand.NewPCG(seed, 0x5EED)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(r.Uint64())
	}
}

// maxAnswer bounds what a damaged request can ask for, bytes.
const maxAnswer = 1 << 17

// answer returns what the given incarnation of a server makes of a request: bytes of any size up
// to what the request says, or now and then an error. It depends on every bit of the request.
func answer(incarnation uint32, req []byte) ([]byte, error) {
	h := sha256.New()
	_, _ = h.Write(binary.LittleEndian.AppendUint32([]byte(key), incarnation))
	_, _ = h.Write(req)
	digest := h.Sum(nil)
	draw := binary.LittleEndian.Uint64(digest)
	if draw%16 == 0 {
		return nil, fmt.Errorf("incarnation %d says no: %x", incarnation, digest)
	}
	most := min(binary.LittleEndian.Uint32(req[8:]), maxAnswer)
	b := make([]byte, 4+len(digest)+int(draw>>8%uint64(most+1)))
	binary.LittleEndian.PutUint32(b, incarnation)
	n := 4 + copy(b[4:], digest)
	fill(b[n:], draw)
	return b, nil
}

// verify compares an answer with what it must be, and says which incarnation gave it.
func verify(req, resp []byte, err error) (incarnation uint32, bad string) {
	remote := new(erpc.Error)
	if errors.As(err, &remote) {
		_, _ = fmt.Sscanf(remote.Text, "incarnation %d", &incarnation)
	} else if len(resp) >= 4 {
		incarnation = binary.LittleEndian.Uint32(resp)
	}
	want, wantErr := answer(incarnation, req)
	if wantErr != nil && remote.Text == wantErr.Error() || wantErr == nil && err == nil &&
		bytes.Equal(resp, want) {
		return incarnation, ""
	}
	return incarnation, fmt.Sprintf("%d bytes, %v; want %d, %v", len(resp), err, len(want), wantErr)
}

// callee is an *erpc.Client or an *erpc.Pool.
type callee interface {
	Call(ctx context.Context, typ uint8, req []byte) ([]byte, error)
}

// call makes one call and enters it. It returns whether it was answered.
func (y *ledger) call(ctx context.Context, c callee, typ uint8, size, most int) bool {
	id := y.next()
	req := request(id, size, most)
	resp, err := c.Call(ctx, typ, req)
	f, ok := fateOf(err)
	bad := ""
	switch {
	case !ok:
		f, bad = unknown, "an unexpected error: "+err.Error()
	case f == answered:
		_, bad = verify(req, resp, err)
		err = nil
	}
	y.ended(id, f, err, bad)
	return f == answered && bad == ""
}
