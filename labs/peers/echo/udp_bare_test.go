package echo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"
)

// trains is a bareFD that gives what it was told, and keeps what it is to send.
type trains struct {
	in   [][]byte
	sent [][]byte
	room int // sends that it takes
}

func (f *trains) RecvTrains(list [][]byte) (int, error) {
	n := copy(list, f.in)
	f.in = f.in[n:]
	return n, nil
}

func (f *trains) Send(b []byte) (bool, error) {
	if f.room == 0 {
		return false, nil
	}
	f.room--
	f.sent = append(f.sent, bytes.Clone(b))
	return true, nil
}

func (f *trains) Close() error { return nil }

// TestBareTrains: messages leave in trains of whole packets, each train at once, and are whole
// again in whatever order their packets come.
func TestBareTrains(t *testing.T) {
	for _, size := range []int{0, 1, bareBody, bareBody + 1, 64 << 10, 1 << 20} {
		from := &trains{room: 1}
		p := newBarePipe(from, 1<<20)
		body := Payload(size)
		p.add(rawMessage{id: 7, body: body})
		for len(p.cuts) > 0 {
			if _, err := p.step(nil); err != nil {
				t.Fatal(err)
			}
			from.room = 1
		}
		packets := max(1, (size+bareBody-1)/bareBody)
		if want := (packets + bareTrain - 1) / bareTrain; len(from.sent) != want {
			t.Errorf("%d bytes: %d trains, want %d", size, len(from.sent), want)
		}
		to := &trains{}
		for _, train := range from.sent {
			if len(train) > bareTrain*barePacket {
				t.Errorf("%d bytes: a train of %d", size, len(train))
			}
			for len(train) > 0 { // the last packet first
				n := min(len(train), barePacket)
				to.in = append([][]byte{train[:n]}, to.in...)
				train = train[n:]
			}
		}
		var got []rawMessage
		q := newBarePipe(to, 1<<20)
		for len(to.in) > 0 {
			if _, err := q.step(func(m rawMessage) error { got = append(got, m); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) != 1 || got[0].id != 7 || !bytes.Equal(got[0].body, body) || len(q.parts) > 0 {
			t.Errorf("%d bytes: %d messages", size, len(got))
		}
	}
}

// TestBareErrors: packets that lie end the run.
func TestBareErrors(t *testing.T) {
	packet := func(size, index uint32, bytes int) []byte {
		b := binary.LittleEndian.AppendUint64(nil, 1)
		b = binary.LittleEndian.AppendUint32(b, size)
		b = binary.LittleEndian.AppendUint32(b, index)
		return append(b, make([]byte, bytes)...)
	}
	for _, tt := range []struct {
		name, want string
		in         [][]byte
	}{
		{"short", "packet of 15 bytes", [][]byte{make([]byte, 15)}},
		{"large", "of a message of 1001 bytes", [][]byte{packet(1001, 0, 1001)}},
		{"behind the end", "byte 1456 of", [][]byte{packet(1000, 1, 0)}},
		{"far behind", "of a message of 1000 bytes", [][]byte{packet(1000, 1<<32-1, 0)}},
		{"cut off", "25 bytes are left of a packet with 10", [][]byte{packet(10, 0, 9)}},
	} {
		p := newBarePipe(&trains{in: tt.in}, 1000)
		_, err := p.step(func(rawMessage) error { return nil })
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	p := newBarePipe(&trains{in: [][]byte{packet(3000, 0, bareBody), packet(2999, 1, bareBody)}}, 3000)
	if _, err := p.step(nil); err == nil || !strings.Contains(err.Error(), "of 2999 and of 3000") {
		t.Errorf("two sizes: %v", err)
	}
}

// TestBareLoss: when nothing comes any more the client says so.
func TestBareLoss(t *testing.T) {
	c := newBareConn(&trains{room: 1}, 1000)
	c.Send(1, Payload(10))
	now := time.Time{}
	c.now = func() time.Time { now = now.Add(bareLost / 2); return now }
	var err error
	for range 10 * idleSteps {
		if _, err = c.Poll(nil); err != nil {
			break
		}
	}
	if !errors.Is(err, errLost) {
		t.Error(err)
	}
}
