package pcap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/userspace-rpc/erpc/kit/filelock"
	"github.com/userspace-rpc/erpc/kit/outfile"
	"github.com/userspace-rpc/erpc/transport"
)

// ErrInUse is the error of a file that another capture writes.
var ErrInUse = errors.New("pcap: another capture writes the file")

// Counts tells how a capture goes.
type Counts struct {
	Packets uint64 // packets handed to the writer or waiting for it
	Dropped uint64 // packets left out, as the buffer was full
}

// Capture writes packets of the transports that it wraps. It is safe for concurrent use.
type Capture struct {
	snap  int
	limit int // bytes that fill takes
	block bool
	now   func() time.Time
	file  io.Closer // what Create opened, or nil
	done  chan struct{}

	// ended says that nothing is captured any more. Written under mu; the transports
	// read it without, so that traffic pays no lock after the end.
	ended atomic.Bool

	mu      sync.Mutex
	changed sync.Cond // there is something to write, or room, or the end
	frames  *framer
	records *pcapgo.Writer // appends to fill
	fill    buffer         // what is written next
	spare   buffer         // of fill's size; nil while the writer has it
	counts  Counts
	err     error // of the writer
}

// buffer is an io.Writer to memory. Its capacity is never exceeded: room is asked for first.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// New begins a capture that writes to w, from one goroutine. The error is a *ConfigError.
// The caller calls Close.
func New(w io.Writer, cfg Config) (*Capture, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &Capture{snap: cfg.SnapLen, limit: cfg.Buffer, block: cfg.Block, now: cfg.Now,
		done: make(chan struct{}), frames: newFramer()}
	c.changed.L = &c.mu
	// The file's header comes on top of what the buffer must hold.
	const fileHeader = 24
	c.limit += fileHeader
	c.fill, c.spare = make(buffer, 0, c.limit), make(buffer, 0, c.limit)
	c.records = pcapgo.NewWriterNanos(&c.fill)
	if err := c.records.WriteFileHeader(uint32(c.snap), layers.LinkTypeEthernet); err != nil {
		return nil, err
	}
	go c.write(w)
	return c, nil
}

// Create begins a capture to a file, which it makes or empties, readable by its owner only:
// it will hold what the application sends. In a folder where others may write it takes no file of
// theirs. Errors are ErrInUse, those of outfile.Open or a *ConfigError.
func Create(name string, cfg Config) (*Capture, error) {
	if _, err := cfg.complete(); err != nil {
		return nil, err
	}
	f, err := outfile.Open(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := empty(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c, err := New(f, cfg)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.file = f
	return c, nil
}

// empty empties a file that no other capture writes, and keeps others away until it is closed.
// Pipes and devices are neither locked nor emptied.
func empty(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	// Some file systems cannot lock. A capture is not worth refusing them.
	if err := filelock.File(f); errors.Is(err, filelock.ErrHeld) {
		return fmt.Errorf("%w: %s: end that capture, or take another file", ErrInUse, f.Name())
	}
	return f.Truncate(0)
}

// write hands what was gathered to w until the capture ends.
func (c *Capture) write(w io.Writer) {
	defer close(c.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.fill) == 0 && !c.ended.Load() {
			c.changed.Wait()
		}
		if len(c.fill) == 0 {
			return
		}
		full := c.fill
		c.fill, c.spare = c.spare[:0], nil
		c.changed.Broadcast() // room
		c.mu.Unlock()
		n, err := w.Write(full)
		c.mu.Lock()
		c.spare = full[:0]
		if err == nil && n < len(full) {
			err = io.ErrShortWrite
		}
		if err != nil {
			c.err = fmt.Errorf("pcap: capture ended: %w", err)
			c.ended.Store(true)
			c.changed.Broadcast()
			return
		}
	}
}

// add captures one packet. Callers hold mu.
func (c *Capture) add(at time.Time, own, peer place, sent, ce bool, head, data []byte) {
	frame, err := c.frames.frame(own, peer, sent, ce, head, data)
	if err != nil { // nothing in a packet can do that
		c.counts.Dropped++
		return
	}
	info := gopacket.CaptureInfo{Timestamp: at, Length: len(frame),
		CaptureLength: min(len(frame), c.snap)}
	need := recordHeader + info.CaptureLength
	for c.block && len(c.fill)+need > c.limit && !c.ended.Load() {
		c.changed.Broadcast() // the writer may not know yet that there is something
		c.changed.Wait()
		frame, _ = c.frames.frame(own, peer, sent, ce, head, data) // others made theirs meanwhile
	}
	if c.ended.Load() || len(c.fill)+need > c.limit {
		c.counts.Dropped++
		return
	}
	_ = c.records.WritePacket(info, frame[:info.CaptureLength]) // to memory, with lengths that fit
	c.counts.Packets++
}

// sent captures packets that a transport took.
func (c *Capture) sent(t *Transport, at time.Time, items []transport.TxItem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range items {
		it := &items[i]
		if it.Dst.IsValid() && len(it.Head)+len(it.Data) <= t.mtu {
			c.add(at, t.own, placeOf(&it.Dst), true, false, it.Head, it.Data)
		}
	}
	c.changed.Broadcast()
}

// received captures packets that a transport is about to give out.
func (c *Capture) received(t *Transport, at time.Time, pkts []transport.RxPacket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range pkts {
		p := &pkts[i]
		c.add(at, t.own, placeOf(&p.From), false, p.CE, p.Data, nil)
	}
	c.changed.Broadcast()
}

// Counts returns how many packets were captured so far.
func (c *Capture) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Err returns the error of the writer that ended the capture, or nil.
func (c *Capture) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the capture, waits until the writer has all of it, and returns the error
// that ended it before, if any. Wrapped transports go on without it. It waits as long as
// the writer does. Calls after the first return the same.
func (c *Capture) Close() error {
	c.mu.Lock()
	c.ended.Store(true)
	c.changed.Broadcast()
	c.mu.Unlock()
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		if err := c.file.Close(); c.err == nil && err != nil {
			c.err = fmt.Errorf("pcap: %w", err)
		}
		c.file = nil
	}
	return c.err
}
