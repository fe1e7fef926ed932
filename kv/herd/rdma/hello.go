package rdma

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kv/herd"
)

// Design says how requests and answers travel.
type Design string

// The designs.
const (
	Herd  Design = "herd"
	Send  Design = "send"
	Write Design = "write"
)

// Errors of meeting and of connections.
var (
	ErrDesign   = errors.New("herd: no such design")
	ErrHello    = errors.New("herd: the peer says nothing that makes sense")
	ErrMismatch = errors.New("herd: the peer has another link layer or kind of address")
	ErrRefused  = errors.New("herd: the server refuses")
	ErrFull     = errors.New("herd: no room for another client")
	ErrPeer     = errors.New("herd: the server has gone")
	ErrClosed   = errors.New("herd: closed")
)

// version of the protocol.
const version = 1

// maxLine bounds what a peer says, in bytes.
const maxLine = 4096

// place is where a side is reached.
type place struct {
	Version int    `json:"herd"`
	GID     string `json:"gid"` // as an IPv6 address
	LID     uint32 `json:"lid,omitempty"`
	Layer   uint32 `json:"layer"`
	MTU     uint32 `json:"mtu"`
	QPN     uint32 `json:"qpn,omitempty"` // of the connected queue pair
	PSN     uint32 `json:"psn,omitempty"`
	QKey    uint32 `json:"qkey,omitempty"`
}

// hello is a client's first message.
type hello struct {
	place
	Design Design `json:"design"`
	UD     uint32 `json:"ud,omitempty"` // the queue pair for answers
	// Design write: memory for answers.
	Base uint64 `json:"base,omitempty"`
	RKey uint32 `json:"rkey,omitempty"`
}

// offer is the server's answer to a hello.
type offer struct {
	place
	Error      string   `json:"error,omitempty"` // and nothing else
	Number     int      `json:"number"`          // the client's
	Partitions int      `json:"partitions"`
	Window     int      `json:"window"`
	Slot       int      `json:"slot"`
	Base       uint64   `json:"base,omitempty"` // of the client's chunk
	RKey       uint32   `json:"rkey,omitempty"`
	UD         []uint32 `json:"ud"` // the queue pair of each partition
}

// say writes one line.
func say(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}

// hear reads one line into v. Errors: ErrHello, those of r.
func hear(r io.Reader, v any) error {
	line, err := bufio.NewReaderSize(io.LimitReader(r, maxLine), maxLine).ReadSlice('\n')
	if err != nil {
		if len(line) > 0 {
			err = fmt.Errorf("%w: %d bytes without an end", ErrHello, len(line))
		}
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("%w: %w", ErrHello, err)
	}
	return nil
}

// placeOf describes a site.
func placeOf(s *verbs.Site) place {
	return place{Version: version, GID: netip.AddrFrom16(s.GID.GID).String(), LID: s.Attr.LID,
		Layer: uint32(s.Attr.LinkLayer), MTU: s.Attr.ActiveMTU}
}

// check looks at what the peer says of itself, and returns its GID.
func (p *place) check(own *verbs.Site) (g verbs.GID, err error) {
	a, err := netip.ParseAddr(p.GID)
	switch {
	case err != nil || a.Zone() != "":
		return g, fmt.Errorf("%w: GID %q", ErrHello, p.GID)
	case p.Version != version:
		return g, fmt.Errorf("%w: version %d, this is %d", ErrHello, p.Version, version)
	case p.QPN >= 1<<24 || p.PSN >= 1<<24 || p.MTU < 256 || p.MTU > 4096 || p.LID >= 1<<16:
		return g, fmt.Errorf("%w: queue pair %d, MTU %d", ErrHello, p.QPN, p.MTU)
	case p.Layer != uint32(own.Attr.LinkLayer) || a.Is4In6() != own.GID.GID.Is4():
		return g, ErrMismatch
	}
	return verbs.GID(a.As16()), nil
}

func (h *hello) check(own *verbs.Site) (verbs.GID, error) {
	g, err := h.place.check(own)
	switch {
	case err != nil:
		return g, err
	case h.Design != Herd && h.Design != Send && h.Design != Write:
		return g, fmt.Errorf("%w: %q", ErrDesign, h.Design)
	case h.Design != Send && h.QPN == 0, h.Design != Write && (h.UD == 0 || h.UD >= 1<<24):
		return g, fmt.Errorf("%w: no queue pair", ErrHello)
	}
	return g, nil
}

func (o *offer) check(own *verbs.Site, d Design) (g verbs.GID, geo herd.Geometry, err error) {
	if o.Error != "" {
		return g, geo, fmt.Errorf("%w: %s", ErrRefused, o.Error)
	}
	if g, err = o.place.check(own); err != nil {
		return g, geo, err
	}
	geo = herd.Geometry{Partitions: o.Partitions, Window: o.Window, Slot: o.Slot}
	err = geo.Check()
	switch {
	case err != nil:
		return g, geo, fmt.Errorf("%w: %w", ErrHello, err)
	case len(o.UD) != o.Partitions || o.Number < 0 || o.Number >= 1<<16 || d != Send && o.QPN == 0:
		return g, geo, fmt.Errorf("%w: client %d, %d queue pairs", ErrHello, o.Number, len(o.UD))
	case o.Slot > int(min(o.MTU, own.Attr.ActiveMTU)):
		return g, geo, fmt.Errorf("%w: slots of %d bytes, packets of %d", ErrMismatch, o.Slot,
			min(o.MTU, own.Attr.ActiveMTU))
	}
	return g, geo, nil
}
