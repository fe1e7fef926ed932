package erpc_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestBatchChaos: on a network that loses and repeats packets, with requests of all sizes that are
// cancelled, answered late, refused or lose their session, each request runs at most once, with its
// own data, and each call ends once, with the request that it sent or with an error.
func TestBatchChaos(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 15))
		net := newMemNet()
		net.shared = seed%3 == 0
		net.batch = int(seed % 5 * 4)
		cfg := erpc.Config{Slots: 4, Credits: 8, NoBundles: seed%2 == 0, Checksum: true}
		p := newBatchPair(t, net, cfg, 4)
		var held []erpc.ReqHandle
		times := map[uint32]int{}
		p.onBatch = func(reqs []erpc.ReqHandle) {
			for _, n := range p.ran[len(p.ran)-len(reqs):] {
				if times[n]++; times[n] > 1 {
					t.Errorf("seed %d: request %d ran again", seed, n)
				}
			}
			rng.Shuffle(len(reqs), func(i, j int) { reqs[i], reqs[j] = reqs[j], reqs[i] })
			for _, h := range reqs {
				switch rng.IntN(4) {
				case 0:
					held = append(held, h)
				case 1:
					is(t, "respond with an error", h.RespondError(errors.New("no")), nil)
				default:
					is(t, "respond", h.RespondBytes(h.Data()), nil)
				}
			}
			clear(reqs)
		}
		lose := func([]byte) bool { return rng.IntN(20) == 0 }
		p.send.lose, p.cend.lose = lose, lose
		for range 400 {
			p.chaos(rng, &held)
		}
		p.send.lose, p.cend.lose = nil, nil
		p.onBatch = func(reqs []erpc.ReqHandle) { p.echo(reqs) }
		p.answerHeld(&held)
		p.until(func() bool {
			return !slices.ContainsFunc(p.calls, func(c *batchCall) bool { return c.ends == 0 })
		})
		for i, c := range p.calls {
			if c.ends != 1 || c.err == nil && !c.good {
				t.Errorf("seed %d: call %d ended %d times: %v", seed, i, c.ends, c.err)
			}
		}
		p.close()
	}
}

// chaos does one thing at random and makes a step.
func (p *batchPair) chaos(rng *rand.Rand, held *[]erpc.ReqHandle) {
	switch i := rng.IntN(len(p.sessions)); rng.IntN(12) {
	case 0:
		if n := len(p.calls); n > 0 { // in vain if it has ended
			_ = p.client.Cancel(p.calls[max(0, n-1-rng.IntN(8))].id)
		}
	case 1:
		p.answerHeld(held)
	case 2:
		if rng.IntN(8) == 0 { // with what it has under way, and a new one in its place
			is(p.tb, "close session", p.client.CloseSession(p.sessions[i]), nil)
			p.connect()
			p.sessions[i] = p.sess
		}
	case 3:
		for k, end := p.send.head, p.send.tail; k < end; k++ { // all of them come twice
			pkt := p.send.slots[k%memRing]
			p.send.put(pkt.buf[:pkt.n], nil, &pkt.from)
		}
	default:
		for range rng.IntN(6) {
			typ := []uint8{bEcho, bEcho, bOther, bOne}[rng.IntN(4)]
			size := []int{4, 40, 300, 1400, 3000}[rng.IntN(5)]
			p.start(typ, rng.IntN(len(p.sessions)), size)
		}
	}
	if rng.IntN(3) > 0 {
		p.run(p.client)
		return
	}
	p.tick = erpc.Time(1000 + rng.IntN(6e6))
	p.step()
	p.overwrite()
}

// answerHeld answers the handles that were kept, those of ended sessions in vain.
func (p *batchPair) answerHeld(held *[]erpc.ReqHandle) {
	for _, h := range *held {
		if data := h.Data(); data != nil {
			p.number(data)
			is(p.tb, "respond late", h.RespondBytes(data), nil)
		} else {
			is(p.tb, "respond in vain", h.RespondBytes(nil), erpc.ErrResponded)
		}
	}
	*held = nil
}
