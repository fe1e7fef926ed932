package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// The kinds of raw server. "plain" uses one sendto and recvfrom per packet, the
// others the transport's bursts.
const (
	rawEcho  = "echo"  // sends back a packet for each
	rawSink  = "sink"  // counts bytes and acknowledges each burst
	rawPlain = "plain" // echo
)

const (
	rawBurst   = 256
	rawKeep    = 5 * time.Millisecond // how often the idle Rpc is looked after
	rawForget  = time.Second          // silence after which a raw server gives up
	rawRestart = 20 * time.Millisecond
)

// rawEnd is one end of a raw transport, the yardstick of an Rpc on the same kind.
type rawEnd struct {
	tr  transport.Transport
	rx  []transport.RxPacket
	tx  []transport.TxItem
	out []byte // what is sent when it is no echo
}

func openRaw(f *NetFlags, addr string) (*rawEnd, error) {
	open := f.open // never captured: these packets have no header
	if m, ok := f.medium().(rawMedium); ok {
		open = func(addr string) (transport.Transport, error) { return m.listenRaw(f, addr) }
	}
	tr, err := open(addr)
	if err != nil {
		return nil, err
	}
	return &rawEnd{tr: tr, rx: make([]transport.RxPacket, rawBurst),
		tx:  make([]transport.TxItem, 0, rawBurst),
		out: make([]byte, tr.Caps().MTU)}, nil
}

// send gives tx to the transport, which may have to be asked more than once.
func (r *rawEnd) send() error {
	items := r.tx
	for tries := 0; len(items) > 0 && tries < 64; tries++ {
		n, err := r.tr.TxBurst(items)
		if err != nil {
			return err
		}
		items = items[n:]
	}
	r.tr.Flush()
	r.tx = r.tx[:0]
	return nil
}

// rawServer answers raw packets in the thread of an endpoint.
type rawServer struct {
	end             *rawEnd
	plain           *plainSocket
	kind            string
	addr            string
	active          bool
	respSize        int
	packets, bytes  uint64
	firstAt, lastAt monotime.Time
}

func (s *rawServer) close() error {
	var err error
	if s.end != nil {
		err = s.end.tr.Close()
	}
	if s.plain != nil {
		err = errors.Join(err, s.plain.close())
	}
	return err
}

// startRaw opens the raw server that c asks for and makes the thread serve it.
func (ep *endpoint) startRaw(c *control) (err error) {
	if !ep.allowRaw {
		return errors.New("the server does not echo raw packets; start it with --raw")
	}
	if c.RespSize < 1 || c.RespSize > 1<<16 ||
		c.Raw != rawEcho && c.Raw != rawSink && c.Raw != rawPlain {
		return fmt.Errorf("raw control %q with %d bytes is unknown or out of range: "+
			"use one version on both sides", c.Raw, c.RespSize)
	}
	if ep.raw != nil {
		if err = ep.raw.close(); err != nil {
			return err
		}
		ep.raw = nil
	}
	s := &rawServer{kind: c.Raw, respSize: c.RespSize, active: true}
	local := ep.rpc.LocalAddr().String()
	if c.Raw == rawPlain {
		host, _, _ := net.SplitHostPort(local)
		s.plain, s.addr, err = listenPlain(host)
	} else if s.end, err = openRaw(ep.flags, ep.flags.medium().beside(local)); err == nil {
		s.addr = s.end.tr.LocalAddr().String()
	}
	if err != nil {
		return err
	}
	ep.raw = s
	return nil
}

// serveRaw serves raw packets until told otherwise over RPC, which is looked after
// now and then, or until nothing comes any more.
func (ep *endpoint) serveRaw() error {
	s := ep.raw
	var keep, heard monotime.Time
	for seen := uint64(0); s.active && !ep.stop.Load(); {
		for range 64 {
			if err := s.step(); err != nil {
				return err
			}
		}
		now := monotime.Now()
		if s.packets != seen || heard == 0 {
			if seen == 0 {
				s.firstAt = now
			}
			seen, heard, s.lastAt = s.packets, now, now
		} else if now.Sub(heard) > rawForget {
			s.active = false
		}
		if now > keep {
			keep = now.Add(rawKeep)
			if _, err := ep.rpc.RunOnce(); err != nil {
				return err
			}
		}
	}
	return nil
}

// step handles one burst.
func (s *rawServer) step() error {
	if s.kind == rawPlain {
		n, err := s.plain.echo(s.respSize)
		s.packets += uint64(n)
		return err
	}
	e := s.end
	n, err := e.tr.RxBurst(e.rx)
	if err != nil || n == 0 {
		return err
	}
	s.packets += uint64(n)
	if s.kind == rawSink {
		for i := range e.rx[:n] {
			s.bytes += uint64(len(e.rx[i].Data))
		}
		binary.LittleEndian.PutUint64(e.out, s.packets)
		e.tx = append(e.tx, transport.TxItem{Dst: e.rx[0].From, Head: e.out[:8]})
		return e.send()
	}
	for i := range e.rx[:n] {
		p := &e.rx[i]
		data := p.Data
		if len(data) < s.respSize {
			data = e.out
		}
		e.tx = append(e.tx, transport.TxItem{Dst: p.From, Head: data[:s.respSize]})
	}
	return e.send()
}

// rawRun describes one raw round of a client.
type rawRun struct {
	size, window, batch int // of packets
	duration            time.Duration
	hist                *hdrhistogram.Histogram
}

// tend looks after the idle Rpc, and says whether the round is over. It is called
// now and then with the time.
func (ep *endpoint) tend(now, end monotime.Time, keep *monotime.Time) (over bool, err error) {
	if now > *keep {
		*keep = now.Add(rawKeep)
		_, err = ep.rpc.RunOnce()
	}
	return now >= end || ep.stop.Load(), err
}

// echoRaw keeps a window of packets in flight to a raw echo server.
func (ep *endpoint) echoRaw(e *rawEnd, dst transport.Addr, r rawRun) (round, error) {
	var done uint64
	var keep monotime.Time
	begin := monotime.Now()
	now, sent, heard := begin, begin, begin
	end := begin.Add(r.duration)
	owed := r.window
	for pass := 0; ; pass++ {
		n, err := e.tr.RxBurst(e.rx)
		if err != nil {
			return round{}, err
		}
		if n > 0 && r.hist != nil {
			now = monotime.Now()
			_ = r.hist.RecordValue(max(1, int64(now.Sub(sent))))
		}
		done += uint64(n)
		owed = min(owed+n, r.window)
		if n > 0 && r.hist != nil || pass&63 == 0 {
			now = monotime.Now()
			if over, err := ep.tend(now, end, &keep); over || err != nil {
				break
			}
			if n == 0 && now.Sub(heard) > rawRestart {
				owed = r.window // all were lost
			}
		}
		if n > 0 {
			heard = now
		}
		if owed < r.batch {
			continue
		}
		for range owed {
			e.tx = append(e.tx, transport.TxItem{Dst: dst, Head: e.out[:r.size]})
		}
		owed, sent = 0, now
		if err := e.send(); err != nil {
			return round{}, err
		}
	}
	return r.result(done, monotime.Now().Sub(begin)), nil
}

func (r *rawRun) result(done uint64, elapsed time.Duration) round {
	out := round{done: done, elapsed: elapsed, rate: float64(done) / elapsed.Seconds()}
	if r.hist != nil {
		out.p50, out.p99 = float64(r.hist.ValueAtQuantile(50))/1e3,
			float64(r.hist.ValueAtQuantile(99))/1e3
	}
	return out
}

// pingPlain is echoRaw with one packet in flight and plain system calls.
func (ep *endpoint) pingPlain(s *plainSocket, r rawRun) (round, error) {
	var done uint64
	var keep monotime.Time
	begin := monotime.Now()
	end, sent, waiting := begin.Add(r.duration), begin, false
	buf := make([]byte, r.size)
	for pass := 0; ; pass++ {
		if !waiting {
			if err := s.write(buf); err != nil {
				return round{}, err
			}
			waiting = true
		}
		n, err := s.read()
		if err != nil {
			return round{}, err
		}
		if n == 0 && pass&63 != 0 {
			continue
		}
		now := monotime.Now()
		if n > 0 {
			done++
			_ = r.hist.RecordValue(max(1, int64(now.Sub(sent))))
		}
		if n > 0 || now.Sub(sent) > rawRestart {
			sent, waiting = now, false
		}
		if over, err := ep.tend(now, end, &keep); over || err != nil {
			return r.result(done, now.Sub(begin)), err
		}
	}
}

// streamRaw sends packets one way, a window of them unacknowledged, with data from a
// buffer as large as a message. The server counts the bytes.
func (ep *endpoint) streamRaw(e *rawEnd, dst transport.Addr, r rawRun, data []byte) error {
	var sent, acked uint64
	var keep monotime.Time
	now := monotime.Now()
	heard, end, off := now, now.Add(r.duration), 0
	per := r.size - wire.HeaderSize
	for pass := 0; ; pass++ {
		n, err := e.tr.RxBurst(e.rx)
		if err != nil {
			return err
		}
		for i := range e.rx[:n] {
			if d := e.rx[i].Data; len(d) == 8 {
				acked = max(acked, binary.LittleEndian.Uint64(d))
			}
		}
		if pass&15 == 0 {
			now = monotime.Now()
			if over, err := ep.tend(now, end, &keep); over || err != nil {
				return err
			}
			if n == 0 && now.Sub(heard) > rawRestart {
				acked, heard = sent, now // what is missing was lost
			}
		}
		if n > 0 {
			heard = now
		}
		room := min(rawBurst, r.window-int(int64(sent)-int64(acked)))
		if room < min(r.batch, r.window) {
			continue
		}
		for range room {
			if off+per > len(data) {
				off = 0
			}
			e.tx = append(e.tx, transport.TxItem{Dst: dst, Head: e.out[:wire.HeaderSize],
				Data: data[off : off+per]})
			off += per
		}
		sent += uint64(room)
		if err := e.send(); err != nil {
			return err
		}
	}
}
