package session

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// TestTranscripts plays testdata/*.txt. A line that starts with "> " is a command, one
// with "#" a comment; the command before must print all others. With -rewrite
// the files are written anew: read the difference.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			old, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(old), ways{})
			if *rewrite {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(old) {
				t.Errorf("%s: %s", name, firstDifference(string(old), got))
			}
			if inside := play(t, string(old), ways{bundled: true}); inside != got {
				t.Errorf("%s, in bundles: %s", name, firstDifference(got, inside))
			}
			if inside := play(t, string(old), ways{bundled: true, crowded: true}); inside != got {
				t.Errorf("%s, in bundles with others: %s", name, firstDifference(got, inside))
			}
			if strings.HasPrefix(filepath.Base(name), "errors") {
				return // in it a server cheats, and answers what a lending transport still has
			}
			lent := strings.ReplaceAll(play(t, string(old), ways{lending: true}), flushLine, "")
			if want := strings.ReplaceAll(got, flushLine, ""); lent != want {
				t.Errorf("%s, lending: %s", name, firstDifference(want, lent))
			}
		})
	}
}

// flushLine reports a flush; a transport that lends may need more of them.
const flushLine = "  flush\n"

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d: got %q, want %q", i+1, g[i], w[i])
		}
	}
	return "one is longer than the other"
}

// ways are how packets travel, of which a transcript shows nothing.
type ways struct {
	lending bool // the transport lends
	bundled bool // small packets travel in bundles
	crowded bool // ... with those of another session
}

// play runs the commands of a transcript and returns it with their output.
func play(t *testing.T, text string, w ways) string {
	s := script{ways: w}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if cmd, ok := strings.CutPrefix(line, "> "); ok {
			b.WriteString(line + "\n")
			for _, l := range s.run(t, cmd) {
				b.WriteString("  " + l + "\n")
			}
		} else if line == "" || line[0] == '#' {
			b.WriteString(line + "\n")
		}
	}
	s.end(t)
	return b.String()
}

// script is the state between the commands of a transcript.
type script struct {
	*rig
	ways
	ctl   *fakeControl // nil without congestion control
	mem   *Memory      // nil without bounds, as is the bank
	bank  *testBank
	acct  Account
	ops   map[uint32]Op
	lines []string
	was   [2]Stats
	bad   int
}

func (s *script) print(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// args are the words of a command: name=value, or a bare value.
type args map[string]string

func (a args) num(name string, def int) int {
	v, ok := a[name]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil {
		panic(err)
	}
	return int(n)
}

func (a args) dur(name string) time.Duration {
	if a[name] == "" {
		return 0
	}
	d, err := time.ParseDuration(a[name])
	if err != nil {
		panic(err)
	}
	return d
}

func (s *script) run(t *testing.T, cmd string) []string {
	words := strings.Fields(cmd)
	a := args{}
	for i, w := range words[1:] {
		if name, value, ok := strings.Cut(w, "="); ok {
			a[name] = value
		} else {
			a[strconv.Itoa(i)] = w
		}
	}
	s.lines = nil
	if words[0] == "session" {
		s.end(t)
		s.session(t, a)
		s.deltas()
		return s.lines
	}
	if words[0] == "call" {
		return s.call(t, a)
	}
	s.in, s.late = Arrival{CE: a["ce"] != "", Unseen: a.dur("unseen")}, a.dur("late")
	if !s.clientCommand(words[0], a) && !s.serverCommand(words[0], a) &&
		!s.pathCommand(words[0], a) {
		t.Fatalf("unknown command %q", cmd)
	}
	s.deltas()
	return s.lines
}

// call plays a request whose answer takes a while.
func (s *script) call(t *testing.T, a args) (lines []string) {
	do := func(cmd string, args ...any) {
		lines = append(lines, s.run(t, fmt.Sprintf(cmd, args...))...)
	}
	do("start ref=1 req=10 resp=500")
	if s.paced {
		do("release")
	}
	slot := s.c2s[len(s.c2s)-1].header().ReqNum % uint64(s.params.Slots)
	do("deliver c at=%d ce=%s", len(s.c2s)-1, a["ce"])
	do("respond slot=%d size=500", slot)
	do("time %s", a["0"])
	do("deliver s at=%d ce=%s unseen=%s", len(s.s2c)-1, a["back"], a["unseen"])
	do("time 1ms")
	return lines
}

func (s *script) session(t *testing.T, a args) {
	p := Params{Slots: a.num("slots", 8), Credits: a.num("credits", 32),
		PerPacket: a.num("perpacket", 1000), MaxMessage: a.num("max", 1<<20),
		Checksum: a["checksum"] == "on", Waiting: a.num("waiting", 6)}
	timing := Timing{RTOMin: a.dur("rtomin"), RTOMax: a.dur("rtomax")}
	cfg := msgbuf.Config{Limit: int64(a.num("limit", 0))}
	ctl, pacing := controlOf(a)
	r := newPacedRig(t, p, timing, a.num("queue", 8), cfg, pacing)
	r.transport(s.lending)
	if s.bundled {
		r.bundles(r.params.PerPacket + wire.HeaderSize)
	}
	if s.crowded {
		r.accompany()
	}
	*s = script{rig: r, ways: s.ways, ctl: ctl, ops: map[uint32]Op{}}
	r.sv.repeatSpan = a.dur("span")
	if quota := a.num("quota", 0); quota > 0 {
		s.mem, s.bank = NewMemory(quota, hoardTiming), &testBank{left: testBankSize, why: NoMemory}
		s.acct = NewAccount(s.bank)
		r.sv.SetMemory(s.mem, &s.acct)
	}
	s.onTx = func(fromClient bool, p dgram, later int) {
		line := s.describe(fromClient, p)
		if fromClient {
			line += fmt.Sprintf(" credits=%d", int(s.cl.credits)+later)
		}
		s.print("%s", line)
	}
	s.onEvent = func(ev Event) {
		if ev.Kind == EventSpent {
			s.print("spent")
		}
	}
	if a["closed"] == "" {
		s.open(a.dur("rtt"))
	}
	if n := a.num("left", 0); n > 0 { // request numbers of each slot
		for i := range s.cl.slots {
			last := uint64(lastReqNum) - uint64(n*p.Slots-i)
			s.cl.slots[i].reqNum, s.sv.slots[i].reqNum = last, last
		}
	}
	if n := a.num("stride", 0); n > 0 {
		s.cl.stride = uint8(n)
	}
}

// end gives back what the last session of the transcript had, and wants all of it.
func (s *script) end(t *testing.T) {
	if s.rig == nil {
		return
	}
	s.onTx = nil
	s.closeClient(ErrClosed)
	for _, op := range s.ops {
		giveBack(op)
	}
	s.noLeak()
	if s.bank != nil {
		if s.acct.Close(); s.bank.left != testBankSize || s.bank.leant != 0 {
			t.Errorf("not all memory came back: %+v", s.bank)
		}
	}
	s.rig = nil
}

// describe prints a dgram. Total is the number of packets of its message.
func (s *script) describe(fromClient bool, p dgram) string {
	h := p.header()
	dir := "S->C"
	if fromClient {
		dir = "C->S"
	}
	line := fmt.Sprintf("%s %v req=%d pkt=%d", dir, h.Type, h.ReqNum, h.PktNum)
	if h.Type == wire.TypeReq || h.Type == wire.TypeResp {
		line += fmt.Sprintf(" len=%d of=%d", len(p.raw)-wire.HeaderSize, h.MsgSize)
	}
	if h.Type == wire.TypeErr {
		e, _ := wire.ParseError(p.raw[wire.HeaderSize:])
		line += fmt.Sprintf(" error=%q ran=%v text=%q", e.Code, e.Ran, e.Text)
	}
	if h.Flags&wire.FlagCE != 0 {
		line += " CE"
	}
	if h.Flags&wire.FlagGap != 0 { // the same bit in all types
		line += map[wire.Type]string{wire.TypeReq: " QUIET", wire.TypeCR: " GAP",
			wire.TypeResp: " LATE", wire.TypeErr: " LATE", wire.TypeWait: " KEEP"}[h.Type]
	}
	if cut := h.Flags.Cut(); cut != 0 {
		line += fmt.Sprintf(" cut=%d", wire.CutSizes[cut])
	}
	if left, ok := wire.Remaining(h.Hold); ok && h.Type == wire.TypeReq && h.PktNum == 0 {
		line += fmt.Sprintf(" left=%v", left)
		h.Hold = wire.Try(h.Hold)
	}
	if h.Type == wire.TypeRFR && h.MsgSize > 0 {
		line += fmt.Sprintf(" more=%d", h.MsgSize)
	}
	if h.Type == wire.TypePast && wire.SlotBusy(h.Hold) {
		line += " BUSY"
		h.Hold = wire.Try(h.Hold)
	}
	if h.Hold != 0 {
		line += fmt.Sprintf(" %s=%d", map[bool]string{true: "hold", false: "try"}[s.isHold(&h)], h.Hold)
	}
	return line
}

// isHold reports whether the hold field of a packet holds a time, not a try.
func (s *script) isHold(h *wire.Header) bool {
	numReq := uint32(0)
	for i := range s.cl.slots {
		if sl := &s.cl.slots[i]; sl.reqNum == h.ReqNum {
			numReq = sl.numReq
		}
	}
	return h.Type == wire.TypeResp && uint32(h.PktNum) == numReq-1 || h.Type == wire.TypeErr
}

// deltas prints which counters changed.
func (s *script) deltas() {
	s.control()
	for i, st := range [2]Stats{s.cst, s.sst} {
		var changed []string
		now, was := reflect.ValueOf(st), reflect.ValueOf(s.was[i])
		for f := range now.NumField() {
			if d := now.Field(f).Uint() - was.Field(f).Uint(); d != 0 {
				changed = append(changed, fmt.Sprintf("%s+%d", now.Type().Field(f).Name, d))
			}
		}
		if changed != nil {
			s.print("%s: %s", [2]string{"client", "server"}[i], strings.Join(changed, " "))
		}
		s.was[i] = st
	}
	if s.badToken != s.bad {
		s.print("wrong token or session: dropped")
		s.bad = s.badToken
	}
	if s.flushC || s.flushS {
		s.print("flush")
		s.flushC, s.flushS = false, false
	}
}

func (s *script) clientCommand(name string, a args) bool {
	switch name {
	case "open":
		s.open(a.dur("rtt"))
	case "start":
		op := s.op(uint32(a.num("ref", 0)), a.num("req", 0), a.num("resp", 0))
		op.ReqType = uint8(a.num("type", 1))
		deadline := monotime.Time(0)
		if d := a.dur("timeout"); d != 0 {
			deadline = s.now.Add(d)
		}
		s.ops[op.Ref] = op
		if err := s.cl.Start(op, deadline, s.now, s.cout); err != nil {
			s.print("error: %v", err)
		}
		s.takeClient()
	case "cancel":
		ref := uint32(a.num("ref", 0))
		ok := s.cancel(ref, errCancelled)
		s.print("cancelled: %v", ok)
		if ok {
			s.cancelled(ref)
		}
	case "close":
		s.closeClient(ErrPeerLost)
	case "tick":
		s.now = s.now.Add(a.dur("0"))
		retries := s.cl.Scan(s.now, s.cout)
		s.takeClient()
		if retries > 0 {
			s.print("retries=%d", retries)
		}
	case "lower":
		s.print("lower: %v, packets of %d bytes", s.cl.LowerCut(a.num("0", 0)), s.cl.PacketSize())
	case "raise":
		s.print("raise: %v, packets of %d bytes", s.cl.RaiseCut(a.num("0", 0)), s.cl.PacketSize())
	case "suspects":
		since, ok := s.cl.Suspects()
		s.print("suspects: %v since %v", ok, time.Duration(since))
	case "drain":
		s.print("news: %v", s.cl.Drain(s.cout))
		s.takeClient()
	case "rtt":
		s.print("srtt=%v rto=%v", s.cl.SRTT(), s.cl.rtt.rto)
	case "credits":
		busy, queued := s.cl.Pending()
		s.print("credits=%d busy=%d queued=%d", s.cl.FreeCredits(), busy, queued)
	default:
		if !s.wholeCommand(name, a) {
			return false
		}
	}
	for _, ev := range s.failed {
		s.print("done ref=%d: %v", ev.Ref, ev.Err)
		s.giveUp(ev.Ref)
	}
	s.failed = nil
	if s.broken != nil {
		s.print("broken: %v", s.broken)
		s.broken = nil
	}
	return true
}

var errCancelled, errNotTaken = errors.New("cancelled"), errors.New("not taken")

// cancelled takes the one outcome of request ref, which has been cancelled.
func (s *script) cancelled(ref uint32) {
	i := slices.IndexFunc(s.failed, func(ev Event) bool { return ev.Ref == ref })
	if i < 0 || s.failed[i].Err != errCancelled {
		s.tb.Fatalf("after cancel of %d: %+v", ref, s.failed)
	}
	s.failed = slices.Delete(s.failed, i, i+1)
	s.giveUp(ref)
}

func (s *script) giveUp(ref uint32) {
	giveBack(s.ops[ref])
	delete(s.ops, ref)
}

func (s *script) serverCommand(name string, a args) bool {
	slot := uint8(a.num("slot", 0))
	switch name {
	case "refuse":
		s.refuse[a.num("type", 1)] = wire.Code(a.num("code", 1))
	case "respond":
		if err := s.respond(slot, a.num("size", 0)); err != nil {
			s.print("error: %v", err)
		}
	case "wait":
		if err := s.sv.Wait(slot, s.now, s.sout); err != nil {
			s.print("error: %v", err)
		}
		s.takeServer()
	case "repeat":
		s.now = s.now.Add(a.dur("0"))
		left := s.sv.Repeat(s.now, s.sout)
		s.takeServer()
		s.print("left=%d", left)
	case "fail":
		if err := s.sv.RespondError(slot, fault(wire.Code(a.num("code", 5)), a["text"]), s.now,
			s.sout); err != nil {
			s.print("error: %v", err)
		}
		s.takeServer()
	case "bank": // gives nothing, and says why
		s.bank.why = map[string]Refusal{"none": NoMemory, "quota": AddrQuotaUsed}[a["0"]]
		s.bank.shut = s.bank.why != Granted
	case "expire": // lets time pass, looking in between as an engine does
		step := max(a.dur("step"), 50*ms)
		for end := s.now.Add(a.dur("0")); s.now < end; {
			s.now = min(s.now.Add(step), end)
			s.mem.Expire(s.now, a["memory"] == "scarce", s.sout)
			s.takeServer()
		}
		s.asked = true // a transport that lends gives back what it has
		s.sout.Flush()
		s.takeServer()
		s.print("buffers=%d running=%d", s.inUse(), s.sv.Running())
	default:
		return false
	}
	return true
}

func (s *script) pathCommand(name string, a args) bool {
	toServer := a["0"] == "c" // c names the client's packets, s the server's
	queue := &s.s2c
	if toServer {
		queue = &s.c2s
	}
	at, count := a.num("at", 0), a.num("n", 1)
	switch name {
	case "time":
		s.now = s.now.Add(a.dur("0"))
	case "drop":
		lose(s.tb, queue, at, count)
	case "dup": // deliver, and leave it where it is
		s.deliver(toServer, (*queue)[at])
	case "deliver":
		for range count {
			p := (*queue)[at]
			*queue = append((*queue)[:at:at], (*queue)[at+1:]...)
			s.deliver(toServer, p)
		}
	case "all":
		for len(s.c2s)+len(s.s2c) > 0 {
			q, dir := &s.c2s, true
			if len(s.c2s) == 0 {
				q, dir = &s.s2c, false
			}
			p := (*q)[0]
			*q = (*q)[1:]
			s.deliver(dir, p)
		}
	case "queues":
		for i, p := range append(append([]dgram{}, s.c2s...), s.s2c...) {
			s.print("%s", s.describe(i < len(s.c2s), p))
		}
	case "inject": // with n further tries
		for try := range count {
			a["hold"] = strconv.Itoa(a.num("hold", 0) + min(try, 1))
			s.inject(toServer, a)
		}
	case "awaits":
		for _, p := range s.c2s {
			s.awaits(p)
		}
	default:
		return false
	}
	return true
}
