package hostiletest

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// TestCrashes kills and stops the processes of a server and its clients, in any order. After each
// of it calls are answered again. A call that a client saw answered ran in the one incarnation
// that answered. A call that ended in another way ran at most once in all of them.
func TestCrashes(t *testing.T) {
	l := begin(t)
	w := &crashes{l: l, r: l.rng("parent", 0), dir: t.TempDir(), clients: make([]*child, 2)}
	w.startServer("127.0.0.1:0")
	for i := range w.clients {
		w.startClient(i)
	}
	w.progress()
	acts := []func(){
		w.killServer, w.killClient, w.stopServer, w.stopClient, w.stopServer, w.killServer,
	}
	for end := time.Now().Add(l.span()); ; {
		w.r.Shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
		for _, act := range acts {
			act()
			w.progress()
		}
		if time.Now().After(end) {
			break
		}
	}
	for _, c := range w.clients {
		c.quit()
	}
	w.server.quit()
	w.check()
}

// crashes are the processes of a test, those that are gone too.
type crashes struct {
	l       *lab
	r       *rand.Rand
	dir     string
	addr    string
	server  *child
	clients []*child

	servers, callers []*child
}

func (w *crashes) startServer(addr string) {
	r := role{Name: "server", Addr: addr, Incarnation: uint32(len(w.servers) + 1)}
	w.server, w.addr = spawn(w.l, w.dir, r)
	w.servers = append(w.servers, w.server)
}

func (w *crashes) startClient(i int) {
	r := role{
		Name: "client", Addr: w.addr, Incarnation: uint32(len(w.callers) + 1), Seed: w.r.Uint64(),
	}
	w.clients[i], _ = spawn(w.l, w.dir, r)
	w.callers = append(w.callers, w.clients[i])
}

// progress waits until each client has had more answers.
func (w *crashes) progress() {
	for _, c := range w.clients {
		c.tell("more")
	}
	for _, c := range w.clients {
		c.expect("more")
	}
}

func (w *crashes) killServer() {
	w.server.kill()
	if w.r.IntN(2) == 0 {
		<-time.After(between(w.r, 0, 1500*time.Millisecond)) // clients notice by themselves
	}
	w.startServer(w.addr)
}

func (w *crashes) killClient() {
	i := w.r.IntN(len(w.clients))
	w.clients[i].kill()
	w.startClient(i)
}

func (w *crashes) stopServer() { w.pause(w.server) }
func (w *crashes) stopClient() { w.pause(w.clients[w.r.IntN(len(w.clients))]) }

// pause stops a process: for less time than its peers wait, or for more.
func (w *crashes) pause(c *child) {
	c.signal(syscall.SIGSTOP)
	if w.r.IntN(2) == 0 {
		<-time.After(between(w.r, 0, 500*time.Millisecond))
	} else {
		<-time.After(between(w.r, 1200*time.Millisecond, 2*time.Second))
	}
	c.signal(syscall.SIGCONT)
}

// check compares the logs of all processes.
func (w *crashes) check() {
	type run struct {
		times       int
		incarnation uint32
	}
	runs := map[uint64]run{}
	for _, s := range w.servers {
		for _, rec := range s.records() {
			runs[rec.ID] = run{runs[rec.ID].times + 1, s.role.Incarnation}
		}
	}
	var fates [unknown + 1]int
	twice, bad := 0, 0
	for id, r := range runs {
		if r.times > 1 {
			twice++
			w.l.Logf("request %#x ran %d times", id, r.times)
		}
	}
	for _, c := range w.callers {
		for _, rec := range c.records() {
			fates[rec.Fate]++
			r := runs[rec.ID]
			if fate(rec.Fate) == answered && r != (run{1, rec.Incarnation}) ||
				fate(rec.Fate) == unsent && r.times != 0 {
				bad++
				w.l.Logf("%s: %+v, but it ran %+v", c.name, rec, r)
			}
		}
	}
	w.l.Logf("%d server and %d client processes, %d requests ran; %d calls answered, %d unsent, "+
		"%d with an unknown outcome", len(w.servers), len(w.callers), len(runs), fates[answered],
		fates[unsent], fates[unknown])
	if twice+bad != 0 || fates[answered] < 100 || fates[unknown] == 0 {
		w.l.Errorf("seed %d: %d requests ran twice, %d otherwise than their calls say, %d answered",
			w.l.seed, twice, bad, fates[answered])
	}
}
