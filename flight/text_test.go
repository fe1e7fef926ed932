package flight_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// fly returns the dump of a server and of its client: the loop of the server was blind for 3 ms
// when the request of type 7 came, and held it for 1 ms.
func fly(t *testing.T) (server, client *flight.Dump) {
	t.Helper()
	own := [2]packet.Addr{{IP: [16]byte{15: 1}, Port: 1}, {IP: [16]byte{15: 1}, Port: 2}}
	head := func(typ wire.Type, hold time.Duration) []byte {
		h := wire.Header{Type: typ, ReqType: 7, Session: 3, ReqNum: 8}
		h.Hold = uint16(hold / wire.HoldUnit)
		b := make([]byte, wire.HeaderSize)
		h.Put(b, 1)
		return b
	}
	const ms = int64(time.Millisecond)
	s, c := flight.NewRing(64), flight.NewRing(64)
	c.Add(flight.Sent, 100*ms, &own[0], head(wire.TypeReq, 0), nil)
	s.AddBlind(103*ms, 3*time.Millisecond)
	s.Add(flight.Received, 103*ms, &own[1], head(wire.TypeReq, 0), nil)
	s.Add(flight.Sent, 104*ms, &own[1], head(wire.TypeResp, time.Millisecond), nil)
	c.Add(flight.Received, 105*ms, &own[0], head(wire.TypeResp, time.Millisecond), nil)
	return s.Dump(own[0], 0, 0), c.Dump(own[1], 2, 0)
}

// TestWriteCalls: the caller's record says what the server took, the server's that the request
// waited before the loop saw it.
func TestWriteCalls(t *testing.T) {
	server, client := fly(t)
	var b strings.Builder
	if err := flight.WriteCalls(&b, 9, server, client); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"served [::1]:2 type=7 req=8 took=1ms waited<=3ms",
		"called [::1]:1 type=7 req=8 took=5ms server=1ms rest=4ms",
		"[::1]:2/2: 1 calls",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// TestWriteText: packets come in the order of their times.
func TestWriteText(t *testing.T) {
	server, client := fly(t)
	var b strings.Builder
	if err := flight.WriteText(&b, server, client); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := []string{"2 > [::1]:1 REQ", "blind for 3ms", "1 < [::1]:2 REQ", "> [::1]:2 RESP",
		"< [::1]:1 RESP"}
	if len(lines) != len(want) {
		t.Fatalf("%q", lines)
	}
	for i, w := range want {
		if !strings.Contains(lines[i], w) {
			t.Errorf("%q, want %q", lines[i], w)
		}
	}
}

// TestWriteSealed: a sealed datagram is a line with what it says in the clear, and no call.
func TestWriteSealed(t *testing.T) {
	r := flight.NewRing(64)
	peer := packet.Addr{IP: [16]byte{15: 1}, Port: 1}
	pkt := wire.AppendSealed(nil, 1<<40, wire.FirstOf(3)|0x010002|wire.KeyPhase)
	r.Add(flight.Received, 1, &peer, pkt, make([]byte, 100))
	d := r.Dump(peer, 0, 0)
	var text, calls strings.Builder
	if err := flight.WriteText(&text, d); err != nil {
		t.Fatal(err)
	}
	if err := flight.WriteCalls(&calls, 9, d); err != nil {
		t.Fatal(err)
	}
	const want = "< [::1]:1 SEALED counter=1099511627776 index=010002 loop=3 bytes=112\n"
	if !strings.HasSuffix(text.String(), want) || !strings.Contains(calls.String(), " 0 calls") {
		t.Errorf("%s%s", &text, &calls)
	}
}

// TestWriteChrome: spans begin and end, with the server's inside the call.
func TestWriteChrome(t *testing.T) {
	server, client := fly(t)
	var b bytes.Buffer
	if err := flight.WriteChrome(&b, server, client); err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Name, Ph, ID string
			PID          int
			TS           float64
		}
	}
	if err := json.Unmarshal(b.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	at := map[string]float64{}
	for _, e := range trace.TraceEvents {
		if e.PID == 2 && e.ID != "" {
			at[e.Name+" "+e.Ph] = e.TS
		}
	}
	if at["called type 7 b"] != 100e3 || at["called type 7 e"] != 105e3 ||
		at["held by the server e"]-at["held by the server b"] < 990 ||
		at["held by the server b"] < 100e3 || at["held by the server e"] > 105e3 {
		t.Errorf("%v", at)
	}
}

// TestGaps: every form says what is missing.
func TestGaps(t *testing.T) {
	r := flight.NewRing(64)
	for i := range 100 {
		r.Add(flight.Sent, int64(i), &packet.Addr{Port: 1}, []byte("?"), nil)
	}
	full, late := r.Dump(packet.Addr{Port: 5}, 0, 0), &flight.Dump{Late: true}
	for name, write := range map[string]func(*strings.Builder) error{
		"calls":  func(b *strings.Builder) error { return flight.WriteCalls(b, 1, full, late) },
		"text":   func(b *strings.Builder) error { return flight.WriteText(b, full, late) },
		"chrome": func(b *strings.Builder) error { return flight.WriteChrome(b, full, late) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil || !strings.Contains(b.String(), "36 datagrams before") ||
			!strings.Contains(b.String(), "did not answer") {
			t.Errorf("%s: %v\n%s", name, err, &b)
		}
	}
}
