package rc

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Config chooses the adapter.
type Config struct {
	Device string     // "": any
	Host   netip.Addr // an address of the adapter's port; zero: the first active one
}

// Depths of the queues, and how many READs may be under way.
const (
	depth     = 256
	maxInline = 220
	maxReads  = 16
)

// patience is how long a side waits for the other's part of the handshake. Tests wait for longer,
// as their guest may stand still.
var patience = 5 * time.Second

// card is a side's message to the other.
type card struct {
	specs [2][]onesided.Spec // its own regions, and what it wants the peer's to be
	gid   verbs.GID
	lid   uint32
	qpn   uint32
	psn   uint32
	mtu   uint32
	reads uint32
	keys  [onesided.MaxRegions]key
}

type key struct {
	addr uint64
	rkey uint32
}

const (
	magic     = 0x6f6e65736964636b // "onesidck"
	version   = 1
	specBytes = 9
	keyBytes  = 12
	cardBytes = 16 + 16 + 5*4 + 2*onesided.MaxRegions*specBytes + onesided.MaxRegions*keyBytes
)

func (c *card) encode() []byte {
	b := make([]byte, 0, cardBytes)
	be := binary.BigEndian
	b = be.AppendUint64(b, magic)
	b = append(b, version, byte(len(c.specs[0])), byte(len(c.specs[1])), 0, 0, 0, 0, 0)
	b = append(b, c.gid[:]...)
	for _, v := range []uint32{c.lid, c.qpn, c.psn, c.mtu, c.reads} {
		b = be.AppendUint32(b, v)
	}
	for _, list := range c.specs {
		for i := range onesided.MaxRegions {
			var s onesided.Spec
			if i < len(list) {
				s = list[i]
			}
			b = append(be.AppendUint64(b, uint64(s.Size)), byte(s.Access))
		}
	}
	for _, k := range c.keys {
		b = be.AppendUint32(be.AppendUint64(b, k.addr), k.rkey)
	}
	return b
}

// decode reads a card. It checks all that this side will rely on.
func (c *card) decode(b []byte) error {
	be := binary.BigEndian
	if len(b) != cardBytes || be.Uint64(b) != magic || b[8] != version {
		return fmt.Errorf("%w: no card of this version", onesided.ErrSpec)
	}
	n := [2]int{int(b[9]), int(b[10])}
	if n[0] > onesided.MaxRegions || n[1] > onesided.MaxRegions {
		return fmt.Errorf("%w: %d and %d regions", onesided.ErrSpec, n[0], n[1])
	}
	copy(c.gid[:], b[16:])
	at := 32
	for _, v := range []*uint32{&c.lid, &c.qpn, &c.psn, &c.mtu, &c.reads} {
		*v = be.Uint32(b[at:])
		at += 4
	}
	for i := range c.specs {
		c.specs[i] = nil
		for j := range onesided.MaxRegions {
			if size := be.Uint64(b[at:]); j < n[i] {
				if size > onesided.MaxRegion {
					return fmt.Errorf("%w: a region of %d bytes", onesided.ErrSpec, size)
				}
				c.specs[i] = append(c.specs[i], onesided.Spec{Size: int(size),
					Access: onesided.Access(b[at+8])})
			}
			at += specBytes
		}
		if err := onesided.CheckSpecs(c.specs[i]); err != nil {
			return err
		}
	}
	for i := range c.keys {
		c.keys[i] = key{be.Uint64(b[at:]), be.Uint32(b[at+8:])}
		at += keyBytes
	}
	return nil
}

// Join makes a link with the process at the other end of a connection, which does the same with own
// and peer changed over. It owns the connection, also if it fails. Errors: onesided.ErrSpec,
// *verbs.MissingError, *verbs.Error, those of the connection.
func Join(conn net.Conn, own, peer []onesided.Spec, cfg Config) (*Link, error) {
	l, err := join(conn, own, peer, cfg)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return l, nil
}

func join(conn net.Conn, own, peer []onesided.Spec, cfg Config) (*Link, error) {
	if err := errors.Join(onesided.CheckSpecs(own), onesided.CheckSpecs(peer)); err != nil {
		return nil, err
	}
	site, err := verbs.FindSite(cfg.Device, cfg.Host)
	if err != nil {
		return nil, err
	}
	l := &Link{own: own, peer: peer, conn: conn}
	if err := l.open(&site); err != nil {
		l.free()
		return nil, err
	}
	if err := l.exchange(&site); err != nil {
		l.free()
		return nil, err
	}
	l.watch()
	return l, nil
}

// open makes everything that this side needs.
func (l *Link) open(site *verbs.Site) (err error) {
	dev, err := verbs.Open(site.Device)
	if err != nil {
		return err
	}
	l.ends = append(l.ends, dev.Close)
	l.ends = append(l.ends, func() error { l.device.stop(); return nil })
	if err := l.device.start(dev, dev.Node(), l.end); err != nil {
		return err
	}
	attr, err := dev.Attr()
	if err != nil {
		return err
	}
	l.reads = min(maxReads, max(attr.MaxReads, 1), max(attr.MaxServed, 1))
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	l.ends = append(l.ends, pd.Close)
	for _, s := range l.own {
		if err := l.register(pd, s); err != nil {
			return err
		}
	}
	if l.cq, err = dev.CreateCQ(depth, nil); err != nil {
		return err
	}
	l.ends = append(l.ends, l.cq.Close)
	qc := verbs.QPConfig{Type: verbs.RC, SendCQ: l.cq, RecvCQ: l.cq, MaxSend: depth, MaxRecv: 1,
		MaxInline: maxInline}
	if l.qp, err = pd.CreateQP(&qc); err != nil {
		return err
	}
	l.inline = qc.MaxInline
	l.ends = append(l.ends, l.qp.Close)
	return nil
}

// register makes a region.
func (l *Link) register(pd *verbs.PD, s onesided.Spec) error {
	mem, err := hugemem.AllocPlain(s.Size)
	if err != nil {
		return err
	}
	l.ends = append(l.ends, func() error { return hugemem.Free(mem) })
	access := verbs.LocalWrite
	if s.Access&onesided.PeerReads != 0 {
		access |= verbs.RemoteRead
	}
	if s.Access&onesided.PeerWrites != 0 {
		access |= verbs.RemoteWrite
	}
	mr, err := pd.Register(mem, access)
	if err != nil {
		return err
	}
	l.ends = append(l.ends, mr.Close)
	l.mem, l.mrs = append(l.mem, mem[:s.Size:s.Size]), append(l.mrs, mr)
	return nil
}

// exchange tells the peer this side's card, and connects the queue pairs.
func (l *Link) exchange(site *verbs.Site) error {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	mine := card{specs: [2][]onesided.Spec{l.own, l.peer}, gid: site.GID.GID, lid: site.Attr.LID,
		qpn: l.qp.Num(), psn: binary.BigEndian.Uint32(b[:]) & 0xffffff, mtu: site.Attr.ActiveMTU,
		reads: l.reads}
	for i, s := range l.own {
		if s.Access != 0 {
			mine.keys[i] = key{l.mrs[i].Base(), l.mrs[i].RKey()}
		}
	}
	if err := l.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := l.conn.Write(mine.encode()); err != nil {
		return err
	}
	room := make([]byte, cardBytes)
	if _, err := io.ReadFull(l.conn, room); err != nil {
		return err
	}
	var c card
	if err := c.decode(room); err != nil {
		return err
	}
	if !same(c.specs[0], l.peer) || !same(c.specs[1], l.own) {
		return fmt.Errorf("%w: the other side has %+v", onesided.ErrSpec, c.specs)
	}
	l.keys = c.keys
	err := l.qp.Connect(&verbs.Link{To: site.Way(c.gid, c.lid), QPN: c.qpn, PSN: mine.psn,
		PeerPSN: c.psn & 0xffffff, MTU: min(mine.mtu, c.mtu), Reads: min(l.reads, max(c.reads, 1)),
		Access: verbs.RemoteRead | verbs.RemoteWrite})
	if err != nil {
		return err
	}
	// Each side sends only when the other can receive.
	if _, err := l.conn.Write([]byte{connected}); err != nil {
		return err
	}
	if _, err := io.ReadFull(l.conn, room[:1]); err != nil {
		return err
	}
	if room[0] != connected {
		return fmt.Errorf("%w: the other side could not connect", onesided.ErrSpec)
	}
	return l.conn.SetDeadline(time.Time{})
}

// connected is the word of a side whose queue pair can receive.
const connected = 'c'

func same(a, b []onesided.Spec) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
