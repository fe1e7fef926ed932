package erpc_test

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// outside returns memory that is not the Go heap's: the race detector does not look at it, as it
// does not at what another process writes.
func outside(t *testing.T, size int) []byte {
	t.Helper()
	const flags = syscall.MAP_ANON | syscall.MAP_PRIVATE
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	return mem
}

// bundledSize is the size of a record in bundleOf, and bundledHead that of its head.
const bundledSize, bundledHead = 40, 18

// bundleOf returns a bundle of packets of a session without an end, larger than what transports
// copy.
func bundleOf(session, token uint32, count int) []byte {
	pkt := make([]byte, wire.BundleHeaderSize)
	for i := range count {
		h := wire.Header{Type: wire.TypeReq, ReqType: tEcho, MsgSize: 500, ReqNum: uint64(i)}
		var head [wire.MaxRecordHead]byte
		n := wire.PutRecord(head[:], &h, bundledSize-bundledHead, false, 0)
		pkt = append(append(pkt, head[:n]...), make([]byte, bundledSize-n)...)
	}
	wire.PutBundle(pkt, wire.Version, count, len(pkt)-wire.BundleHeaderSize, session, token)
	return pkt
}

// TestSharedBundle: of a bundle that its sender can still change nothing is read behind the header,
// be the sessions few or so many that they are prefetched. Where packets must be sealed it is
// dropped as one that is not.
func TestSharedBundle(t *testing.T) {
	for _, cfg := range []erpc.Config{{}, {PSK: testPSK}} {
		for _, sessions := range []int{1, 300} {
			sharedBundle(t, cfg, sessions)
		}
	}
}

func sharedBundle(t *testing.T, cfg erpc.Config, sessions int) {
	cfg.MaxSessions = 1000
	net := newMemNet()
	net.shared = true
	p := newErrPairOn(t, net, cfg)
	for range sessions - 1 {
		p.connect()
	}
	page := syscall.Getpagesize()
	mem := outside(t, 2*page)
	pkt := bundleOf(0, 0, 20)
	at := page - wire.HeaderSize
	copy(mem[at:], pkt)
	if err := syscall.Mprotect(mem[page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	shown := false
	p.send.show = func(rx *transport.RxPacket) {
		if len(rx.Data) == len(pkt) && wire.IsBundle(rx.Data) {
			rx.Data = mem[at : at+len(pkt) : at+len(pkt)]
			shown = true
		}
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	before := p.server.Counters()
	p.send.put(pkt, nil, &p.cend.addr)
	p.step()
	now := p.server.Counters()
	shared, unsealed := now.DropBundle-before.DropBundle, now.DropSealed-before.DropSealed
	if shared+unsealed != 1 || (unsealed == 1) != (cfg.PSK != nil) || !shown {
		t.Errorf("%d bundles were dropped, and %d that were not sealed", shared, unsealed)
	}
	p.send.show = nil
	is(t, "a call", p.call(tEcho, 10).err, nil)
	p.close()
}

// TestChangingPackets: a peer whose packets change while they are read ends its own sessions at
// most. Packets of all kinds are in memory where somebody writes all the time.
func TestChangingPackets(t *testing.T) {
	for _, cfg := range []erpc.Config{{}, {PSK: testPSK}} {
		changingPackets(t, cfg)
	}
}

func changingPackets(t *testing.T, cfg erpc.Config) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("two processors are needed: nothing changes while something is read")
	}
	net := newMemNet()
	net.shared = true
	p := newErrPairOn(t, net, cfg)
	var r reader
	r.watch(p.memPair)
	p.connect()
	is(t, "a call", p.call(tEcho, 1000).err, nil)
	r.know(p.sess)
	stranger := p.cend.addr
	stranger.Port = 900
	whole := mgmtPacket(wire.OpPong, wire.AliveSize)
	r.aim(whole, 0) // as long as nobody changes it, it is for the session
	p.send.put(whole, nil, &stranger)
	p.step()
	if st := p.server.Counters(); st.DropToken+st.DropSealed != 1 {
		t.Fatalf("the attacker does not know the session: %+v", st)
	}
	const size = 1024
	mem := outside(t, size)
	var over atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := uint32(1); !over.Load(); i = i*1664525 + 1013904223 {
			at := int(i>>16) % 24 * 4 // most headers are there
			if i>>30 != 0 {
				at = wire.BundleHeaderSize + int(i>>16)%8*bundledSize
			}
			word := (*uint32)(unsafe.Pointer(&mem[at]))
			for range 100 {
				old := atomic.LoadUint32(word)
				atomic.StoreUint32(word, old^i>>8&0x30303030)
				atomic.StoreUint32(word, old)
			}
		}
	})
	p.send.show = func(rx *transport.RxPacket) {
		if rx.Shared && rx.From != p.cend.addr {
			copy(mem, rx.Data)
			rx.Data = mem[:len(rx.Data):len(rx.Data)]
		}
	}
	dice := rand.New(rand.NewPCG(1, 9))
	for range 20_000 {
		pkt := bundleOf(r.session[0], r.token[0], 8+dice.IntN(12)) // more than is copied
		if dice.IntN(2) == 0 {
			pkt = make([]byte, 300+dice.IntN(size-300))
			h := wire.Header{Type: wire.Type(dice.IntN(int(wire.TypeSealed) + 1)),
				ReqType: uint8(1 + dice.IntN(int(wire.OpNoKeys))),
				MsgSize: uint32(dice.IntN(len(pkt))), ReqNum: uint64(dice.IntN(64))}
			h.Put(pkt, 0)
			r.aim(pkt, 0)
		}
		p.send.put(pkt, nil, &stranger)
		p.run(p.server)
		p.net.now += p.tick
	}
	over.Store(true)
	writer.Wait()
	p.send.show = nil
	is(t, "another call", p.call(tEcho, 1000).err, nil)
	p.close()
}

// TestSharedSealed: a sealed packet that its sender can still change is opened in other memory, and
// so is each packet of a handshake: where it lies nothing can be written.
func TestSharedSealed(t *testing.T) {
	net := newMemNet()
	net.shared = true
	p := newErrPairOn(t, net, erpc.Config{PSK: testPSK})
	const packets = 128 // more than in a burst
	page := syscall.Getpagesize()
	all := outside(t, packets*page)
	shown := 0
	show := func(rx *transport.RxPacket) {
		if !rx.Shared {
			return
		}
		mem := all[shown%packets*page:][:page]
		shown++
		for _, prot := range []int{syscall.PROT_READ | syscall.PROT_WRITE, syscall.PROT_READ} {
			if err := syscall.Mprotect(mem, prot); err != nil {
				t.Fatal(err)
			}
			if prot&syscall.PROT_WRITE != 0 {
				copy(mem, rx.Data)
			}
		}
		rx.Data = mem[:len(rx.Data):len(rx.Data)]
	}
	p.send.show, p.cend.show = show, show
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	p.connect()
	is(t, "a call", p.call(tEcho, 1000).err, nil)
	is(t, "a call with a large answer", p.call(tHuge, 5000).err, nil)
	if shown < 10 {
		t.Errorf("%d packets", shown)
	}
	p.close()
}
