package afxdp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

// steering is the XDP program of a link and its maps. It lives as long as its descriptors, so
// it goes with the process.
type steering struct {
	program *ebpf.Program
	link    link.Link
	mode    Mode
	ports   *ebpf.Map // portKey to the index of the endpoint's first socket in sockets
	sockets *ebpf.Map // slot*MaxQueues + queue to XDP socket
}

// portKey is an address and port as they are in a frame, IPv4 as IPv4-mapped.
type portKey struct {
	IP   [16]byte
	Port [2]byte
	_    [2]byte
}

func keyOf(l rawudp.Local) (k portKey) {
	k.IP = l.IP.As16()
	binary.BigEndian.PutUint16(k.Port[:], l.Port)
	return k
}

// Verdict of an XDP program (linux/bpf.h, enum xdp_action).
const xdpPass = 2

// Offsets in struct xdp_md (linux/bpf.h).
const (
	mdData    = 0
	mdDataEnd = 4
	mdQueue   = 16
)

// hasFrags says that the program can see frames that are not in one piece: without,
// drivers refuse it on links of large MTU (linux/bpf.h, BPF_F_XDP_HAS_FRAGS).
const hasFrags = unix.BPF_F_XDP_HAS_FRAGS

// half is v in the byte order of a frame, as the program loads it.
func half(v uint16) int32 {
	return int32(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v)))
}

// program returns the steering program. It takes what the codec takes, lengths and
// checksums aside: no fragments, options or extension headers, nothing to a group of machines.
func program(ports, sockets int) asm.Instructions {
	const (
		pass = "pass"
		ipv6 = "ipv6"
		find = "find"
		key  = -24 // offset of the portKey on the stack
	)
	p := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnXdpGetBuffLen.Call(),
		asm.JGT.Imm(asm.R0, frameSize, pass),
		asm.LoadMem(asm.R7, asm.R6, mdData, asm.Word),
		asm.LoadMem(asm.R8, asm.R6, mdDataEnd, asm.Word),
	}
	// within passes frames that are shorter than n bytes.
	within := func(n int32) {
		p = append(p, asm.Mov.Reg(asm.R2, asm.R7), asm.Add.Imm(asm.R2, n),
			asm.JGT.Reg(asm.R2, asm.R8, pass))
	}
	// want passes frames that have other bits than value in mask at an offset.
	want := func(at int16, size asm.Size, mask, value int32) {
		p = append(p, asm.LoadMem(asm.R0, asm.R7, at, size), asm.And.Imm(asm.R0, mask),
			asm.JNE.Imm(asm.R0, value, pass))
	}
	// words copies n words of the frame into the key.
	words := func(at, to int16, n int) {
		for i := range int16(n) {
			p = append(p, asm.LoadMem(asm.R0, asm.R7, at+4*i, asm.Word),
				asm.StoreMem(asm.RFP, key+to+4*i, asm.R0, asm.Word))
		}
	}
	port := func(at int16) {
		p = append(p, asm.LoadMem(asm.R0, asm.R7, at, asm.Half),
			asm.StoreMem(asm.RFP, key+16, asm.R0, asm.Half),
			asm.Mov.Imm(asm.R0, 0), asm.StoreMem(asm.RFP, key+18, asm.R0, asm.Half))
	}
	within(42)
	want(0, asm.Byte, 1, 0)
	p = append(p, asm.LoadMem(asm.R0, asm.R7, 12, asm.Half), asm.JEq.Imm(asm.R0, half(0x86DD), ipv6))
	want(12, asm.Half, 0xFFFF, half(0x0800))
	want(14, asm.Byte, 0xFF, 0x45)
	want(20, asm.Half, half(0x3FFF), 0) // more fragments, and the offset
	want(23, asm.Byte, 0xFF, 17)
	p = append(p, asm.Mov.Imm(asm.R0, 0),
		asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, key+8, asm.R0, asm.Half),
		asm.Mov.Imm(asm.R0, -1),
		asm.StoreMem(asm.RFP, key+10, asm.R0, asm.Half))
	words(30, 12, 1)
	port(36)
	p = append(p, asm.Ja.Label(find))

	at := len(p)
	within(62)
	p[at] = p[at].WithSymbol(ipv6)
	want(14, asm.Byte, 0xF0, 0x60)
	want(20, asm.Byte, 0xFF, 17)
	words(38, 0, 4)
	port(56)
	return append(p,
		asm.LoadMapPtr(asm.R1, ports).WithSymbol(find),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, pass),
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R6, mdQueue, asm.Word),
		asm.JGE.Imm(asm.R3, MaxQueues, pass),
		asm.Add.Reg(asm.R2, asm.R3),
		asm.LoadMapPtr(asm.R1, sockets),
		asm.Mov.Imm(asm.R3, xdpPass), // if there is no such socket
		asm.FnRedirectMap.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol(pass),
		asm.Return())
}

// newSteering loads the program with empty maps. Errors are a *rawudp.PrivilegeError,
// match transport.ErrUnsupported, or are the system's.
func newSteering(slots int) (s *steering, err error) {
	s = &steering{}
	defer func() {
		if err != nil {
			s.close()
			err = programError(err)
		}
	}()
	if s.ports, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "erpc_ports", Type: ebpf.Hash, KeySize: 20, ValueSize: 4, MaxEntries: uint32(slots),
	}); err != nil {
		return s, err
	}
	if s.sockets, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "erpc_sockets", Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4,
		MaxEntries: uint32(slots * MaxQueues),
	}); err != nil {
		return s, err
	}
	s.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "erpc_steer", Type: ebpf.XDP, Flags: hasFrags, License: "Dual MIT/GPL",
		Instructions: program(s.ports.FD(), s.sockets.FD()),
	})
	return s, err
}

func programError(err error) error {
	_, verifier := errors.AsType[*ebpf.VerifierError](err) // it says "permission denied", too
	switch {
	case verifier:
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return &rawudp.PrivilegeError{Need: "CAP_NET_ADMIN and CAP_BPF", For: "XDP program", Err: err}
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("afxdp: program: %w: %w", transport.ErrUnsupported, err)
	}
	return fmt.Errorf("afxdp: program: %w", err)
}

// attach puts the program on the link of that index.
func (s *steering) attach(index int, mode Mode) error {
	flags := link.XDPDriverMode
	if mode == ModeGeneric {
		flags = link.XDPGenericMode
	}
	at, err := link.AttachXDP(link.XDPOptions{Program: s.program, Interface: index, Flags: flags})
	if err != nil {
		return err
	}
	s.link, s.mode = at, mode
	return nil
}

// detach takes the program off the link.
func (s *steering) detach() {
	if s.link != nil {
		s.link.Close()
		s.link = nil
	}
}

func (s *steering) close() {
	s.detach()
	if s.program != nil {
		s.program.Close()
	}
	for _, m := range []*ebpf.Map{s.ports, s.sockets} {
		if m != nil {
			m.Close()
		}
	}
}
