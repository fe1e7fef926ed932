package afpacket

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

// guard keeps the kernel's IP stack from the endpoint's frames: a program on the
// ingress of the link, behind the packet sockets and before the IP stack (tcx). It
// lives as long as its descriptor, so it goes with the process.
type guard struct {
	program *ebpf.Program
	link    link.Link
}

// Verdicts of a tcx program (linux/bpf.h, enum tcx_action_base).
const (
	tcxNext = -1
	tcxDrop = 2
)

// Offsets in struct __sk_buff (linux/bpf.h).
const (
	skbPktType     = 4
	skbVLANPresent = 20
)

// guardProgram drops the frames that filter lets in, and leaves all others to the next program or
// socket.
func guardProgram(l rawudp.Local) asm.Instructions {
	const (
		next  = "next"
		frame = -66 // offset of the copied headers on the stack: those of IP are aligned
	)
	list := matches(l)
	last := list[len(list)-1]
	p := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R0, asm.R6, skbPktType, asm.Word),
		asm.JNE.Imm(asm.R0, 0, next), // PACKET_HOST
		asm.LoadMem(asm.R0, asm.R6, skbVLANPresent, asm.Word),
		asm.JNE.Imm(asm.R0, 0, next),
		// The headers need not lie in one piece: have them copied. It fails if the frame is shorter.
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, frame),
		asm.Mov.Imm(asm.R4, int32(last.at+last.size)),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, next),
	}
	for _, m := range list {
		size := map[int]asm.Size{1: asm.Byte, 2: asm.Half, 4: asm.Word}[m.size]
		p = append(p, asm.LoadMem(asm.R0, asm.RFP, int16(frame+m.at), size))
		mask, value := asLoaded(m.mask, m.size), asLoaded(m.value, m.size)
		if m.mask != 0xFFFFFFFF {
			p = append(p, asm.And.Imm32(asm.R0, mask))
		}
		p = append(p, asm.JNE.Imm32(asm.R0, value, next))
	}
	return append(p,
		asm.Mov.Imm(asm.R0, tcxDrop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, tcxNext).WithSymbol(next),
		asm.Return())
}

// asLoaded returns the number v of size bytes in network order as this machine loads it.
func asLoaded(v uint32, size int) int32 {
	var b [4]byte
	switch size {
	case 1:
		return int32(v)
	case 2:
		binary.BigEndian.PutUint16(b[:], uint16(v))
		return int32(binary.NativeEndian.Uint16(b[:]))
	}
	binary.BigEndian.PutUint32(b[:], v)
	return int32(binary.NativeEndian.Uint32(b[:]))
}

// newGuard loads the program and attaches it to a link. Errors are a *rawudp.PrivilegeError,
// match transport.ErrUnsupported, or are the system's.
func newGuard(l rawudp.Local, index int) (*guard, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "erpc_guard", Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress,
		Instructions: guardProgram(l), License: "Dual MIT/GPL",
	})
	if err != nil {
		return nil, guardError(err)
	}
	g := &guard{program: program}
	if err := g.attach(index); err != nil {
		program.Close()
		return nil, err
	}
	return g, nil
}

func guardError(err error) error {
	_, verifier := errors.AsType[*ebpf.VerifierError](err) // it says "permission denied", too
	switch {
	case verifier:
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return &rawudp.PrivilegeError{Need: "CAP_NET_ADMIN and CAP_BPF", For: "afpacket guard", Err: err}
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("afpacket: guard: %w: %w", transport.ErrUnsupported, err)
	}
	return fmt.Errorf("afpacket: guard: %w", err)
}

// attach moves the guard to the link of that index, in the network namespace of the
// calling thread.
func (g *guard) attach(index int) error {
	if g.link != nil {
		g.link.Close()
		g.link = nil
	}
	at, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: g.program,
		Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return guardError(err)
	}
	g.link = at
	return nil
}

func (g *guard) close() {
	if g.link != nil {
		g.link.Close()
	}
	g.program.Close()
}
