//go:build linux

package debug

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestDeafPeer: a peer that asks for records and does not read them holds up neither calls nor
// other peers. It gets all of them once it reads.
func TestDeafPeer(t *testing.T) {
	const room = 256 << 10 // more than a socket holds
	w := newRig(t, Config{})
	if err := w.ask.Record(t.Context(), 1<<14); err != nil {
		t.Fatal(err)
	}
	w.call(t, 3000)
	deaf, err := net.Dial("unix", w.socket.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := io.WriteString(deaf, "GET /v1/flight HTTP/1.1\r\nHost: erpc\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(deaf, 16)
	if _, err := r.Peek(1); err != nil { // from here on the answer is under way
		t.Fatal(err)
	}
	w.call(t, 100)
	if _, err := w.ask.About(t.Context()); err != nil {
		t.Error(err)
	}
	if snaps, err := w.ask.Snapshots(t.Context(), 1); err != nil || len(snaps) != 2 || snaps[0].Late ||
		snaps[1].Late {
		t.Errorf("%d snapshots, %v", len(snaps), err)
	}
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, answer.Body); err != nil || n < room {
		t.Errorf("an answer of %d bytes, %v: want more than %d", n, err, room)
	}
}
