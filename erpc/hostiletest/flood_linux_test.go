package hostiletest

import (
	"testing"
)

// TestFlood sends packets of strangers, each from another address, while victims call. Behind each
// burst comes a call, so that the kernel does not drop the flood before the server sees it.
func TestFlood(t *testing.T) {
	l := begin(t)
	book := newLedger()
	s := serve(l, steady(), book, nil)
	victim, _ := dial(l, "127.0.0.1:0", s.addr, steady())
	must(l, book, victim, 100)
	l.until("the session shows", func() bool { return s.stats().Sessions == 1 })
	before := s.stats()
	heap := heapInUse()

	f := newFlood(l, s.addr)
	total := l.pick(100_000, 1_000_000)
	if testing.Short() {
		total /= 4
	}
	for f.sent < total && !t.Failed() {
		for range burst {
			f.next()
		}
		must(l, book, victim, 1)
	}
	after := s.stats()
	l.Logf("%d packets from as many addresses, %d bytes; %d answers, %d bytes", f.sent, f.bytes,
		f.answers, f.answerBytes)
	l.Logf("the server: %d packets, dropped %d malformed, %d of no session, %d of wrong tokens, "+
		"%d Connects", after.RxPackets-before.RxPackets, after.DropMalformed-before.DropMalformed,
		after.DropNoSession-before.DropNoSession, after.DropToken-before.DropToken, after.DropConnects)
	if after.RxPackets-before.RxPackets < uint64(f.sent)/2 {
		t.Errorf("the server saw %d packets of %d", after.RxPackets-before.RxPackets, f.sent)
	}
	if f.answers == 0 || f.answerBytes > f.bytes {
		t.Errorf("strangers sent %d bytes and got %d in %d answers", f.bytes, f.answerBytes, f.answers)
	}
	if after.Sessions != before.Sessions || after.SessionsOpened != before.SessionsOpened {
		t.Errorf("the server has %d sessions and opened %d; before the flood: %d, %d",
			after.Sessions, after.SessionsOpened, before.Sessions, before.SessionsOpened)
	}
	if after.Memory > before.Memory+1<<20 { // some for the sizes of the victim's answers
		t.Errorf("message buffers grew from %d to %d bytes", before.Memory, after.Memory)
	}
	if now := heapInUse(); now > heap+heapSlack+socketMemory {
		t.Errorf("the flood made the heap grow from %d to %d bytes", heap, now)
	}
	must(l, book, victim, 100)
	shut(l, victim)
	s.stop()
	book.check(l, true)
}

// flood sends packets of strangers.
type flood struct {
	*stranger
	forger
	sent, bytes int
	answers     int
	answerBytes int
}

func newFlood(l *lab, server string) *flood {
	return &flood{stranger: newStranger(l, server), forger: forger{r: l.rng("flood", 0)}}
}

// next sends one packet from an address that has sent none yet, and takes answers in.
func (f *flood) next() {
	pkt := f.make()
	if !f.send(pkt, addressOf(f.sent)) {
		return
	}
	f.sent++
	f.bytes += len(pkt)
	for b := f.receive(); b != nil; b = f.receive() {
		f.answers++
		f.answerBytes += len(b)
	}
}
