package echo

import (
	"net"
	"testing"
)

// TestLeastPeers: they echo, or answer with what they are to answer, and are found by name though
// they are none of Peers.
func TestLeastPeers(t *testing.T) {
	for _, name := range []string{"net-udp", "udp-mux"} {
		testLeastPeer(t, name)
	}
}

func testLeastPeer(t *testing.T, name string) {
	p, ok := ByName(name)
	if !ok {
		t.Fatal("there is no " + name)
	}
	for _, q := range Peers() {
		if q.Name == p.Name {
			t.Error("it is in the tables")
		}
	}
	for _, z := range []Sizes{{}, {Request: 32, Response: 32}, {Request: 8, Response: p.MaxSize}} {
		calls := serve(t, p, z, 2)
		for seq := range uint64(6) {
			request := Payload(z.Request)
			Stamp(request, seq)
			response, err := calls[seq%2](t.Context(), request)
			if err == nil {
				err = Check(request, fixedOf(z), response, true)
			}
			if err != nil {
				t.Fatalf("%+v, call %d: %v", z, seq, err)
			}
		}
	}
}

// TestLeastPeerRepeats: a request that was lost is sent again, and an answer that comes late is not
// taken for that of the next request.
func TestLeastPeerRepeats(t *testing.T) {
	l, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := leastPeer.Dial(t.Context(), l.LocalAddr().String(), Sizes{Request: 8, Response: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		buf := make([]byte, 100)
		for i := 0; ; i++ {
			n, from, err := l.ReadFrom(buf)
			if err != nil {
				return
			}
			for range min(i, 2) { // the first request is lost, others are answered twice
				_, _ = l.WriteTo(buf[:n], from)
			}
		}
	}()
	call := conn.NewCall()
	for seq := range uint64(3) {
		request := make([]byte, 8)
		Stamp(request, seq)
		response, err := call(t.Context(), request)
		if err == nil {
			err = Check(request, nil, response, true)
		}
		if err != nil {
			t.Errorf("call %d: %v", seq, err)
		}
	}
}
