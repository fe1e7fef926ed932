//go:build cgo && linux

package verbs

/*
#cgo LDFLAGS: -ldl
#cgo nocallback ev_post_send
#cgo noescape ev_post_send
#cgo nocallback ev_post_recv
#cgo noescape ev_post_recv
#cgo nocallback ev_poll_cq
#cgo noescape ev_poll_cq
#cgo nocallback ev_arm_cq
#cgo nocallback ev_drain_channel
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import "unsafe"

// handle is a pointer of the library.
type handle = unsafe.Pointer

// The Go and C forms of the structs must be the same: these do not compile otherwise.
var (
	_ [unsafe.Sizeof(SendWR{})]byte     = [C.sizeof_struct_ev_send]byte{}
	_ [unsafe.Sizeof(RecvWR{})]byte     = [C.sizeof_struct_ev_recv]byte{}
	_ [unsafe.Sizeof(WC{})]byte         = [C.sizeof_struct_ev_wc]byte{}
	_ [unsafe.Sizeof(AHAttr{})]byte     = [C.sizeof_struct_ev_ah]byte{}
	_ [unsafe.Sizeof(QPAttr{})]byte     = [C.sizeof_struct_ev_qp_attr]byte{}
	_ [unsafe.Sizeof(DeviceAttr{})]byte = [C.sizeof_struct_ev_device_attr]byte{}
	_ [unsafe.Sizeof(PortAttr{})]byte   = [C.sizeof_struct_ev_port_attr]byte{}
)

// number is h for a frequent call.
func number(h handle) C.uintptr_t { return C.uintptr_t(uintptr(h)) }

func sysLoad() *MissingError {
	why := make([]byte, 256)
	rc := C.ev_load((*C.char)(unsafe.Pointer(&why[0])), C.int(len(why)))
	switch rc {
	case 0:
		return nil
	case 1:
		return &MissingError{What: text(why), Mend: mendHeader}
	}
	return &MissingError{What: text(why), Mend: mendLibrary}
}

func sysDevices(names []byte) int {
	return int(C.ev_devices((*C.char)(unsafe.Pointer(&names[0])), C.int(len(names))))
}

func sysOpen(name string) (ctx handle, rc int) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	rc = int(C.ev_open(s, &ctx))
	return ctx, rc
}

func sysClose(ctx handle) int { return int(C.ev_close(ctx)) }

func sysQueryDevice(ctx handle, a *DeviceAttr) int {
	return int(C.ev_query_device(ctx, (*C.struct_ev_device_attr)(unsafe.Pointer(a))))
}

func sysQueryPort(ctx handle, port int, a *PortAttr) int {
	return int(C.ev_query_port(ctx, C.int(port), (*C.struct_ev_port_attr)(unsafe.Pointer(a))))
}

func sysQueryGID(ctx handle, port, index int, g *GID) int {
	return int(C.ev_query_gid(ctx, C.int(port), C.int(index), (*C.uint8_t)(unsafe.Pointer(g))))
}

func sysAsyncFD(ctx handle) int { return int(C.ev_async_fd(ctx)) }

func sysAsyncEvent(ctx handle, e *Event) int {
	var c C.struct_ev_event
	rc := int(C.ev_async_event(ctx, &c))
	if rc == 0 {
		*e = Event{Code: uint32(c.code), Port: uint32(c.port), Name: C.GoString(&c.name[0])}
	}
	return rc
}

func sysAllocPD(ctx handle) (pd handle, rc int) {
	rc = int(C.ev_alloc_pd(ctx, &pd))
	return pd, rc
}

func sysDeallocPD(pd handle) int { return int(C.ev_dealloc_pd(pd)) }

func sysRegMR(pd handle, addr, length uint64,
	access Access) (mr handle, lkey, rkey uint32, rc int) {
	var l, r C.uint32_t
	rc = int(C.ev_reg_mr(pd, C.uint64_t(addr), C.uint64_t(length), C.uint32_t(access), &mr, &l, &r))
	return mr, uint32(l), uint32(r), rc
}

func sysDeregMR(mr handle) int { return int(C.ev_dereg_mr(mr)) }

func sysCreateAH(pd handle, a *AHAttr) (ah handle, rc int) {
	rc = int(C.ev_create_ah(pd, (*C.struct_ev_ah)(unsafe.Pointer(a)), &ah))
	return ah, rc
}

func sysDestroyAH(ah handle) int { return int(C.ev_destroy_ah(ah)) }

func sysCreateChannel(ctx handle) (ch handle, fd, rc int) {
	var n C.int
	rc = int(C.ev_create_channel(ctx, &ch, &n))
	return ch, int(n), rc
}

func sysDestroyChannel(ch handle) int { return int(C.ev_destroy_channel(ch)) }

func sysDrainChannel(ch handle) int { return int(C.ev_drain_channel(number(ch))) }

func sysCreateCQ(ctx handle, depth int, ch handle) (cq handle, got, rc int) {
	var n C.int
	rc = int(C.ev_create_cq(ctx, C.int(depth), ch, &cq, &n))
	return cq, int(n), rc
}

func sysDestroyCQ(cq handle) int { return int(C.ev_destroy_cq(cq)) }

func sysArmCQ(cq handle) int { return int(C.ev_arm_cq(number(cq))) }

func sysPollCQ(cq handle, wc *WC, n int) int {
	return int(C.ev_poll_cq(number(cq), (*C.struct_ev_wc)(unsafe.Pointer(wc)), C.int(n)))
}

func sysCreateQP(pd, sendCQ, recvCQ handle, cfg *QPConfig) (qp handle, num uint32, rc int) {
	in := C.struct_ev_qp_init{send_cq: sendCQ, recv_cq: recvCQ, _type: C.uint32_t(cfg.Type),
		max_send: C.uint32_t(cfg.MaxSend), max_recv: C.uint32_t(cfg.MaxRecv), max_sge: 2,
		max_inline: C.uint32_t(cfg.MaxInline)}
	if cfg.SignalAll {
		in.sig_all = 1
	}
	var n C.uint32_t
	rc = int(C.ev_create_qp(pd, &in, &qp, &n))
	if rc == 0 {
		cfg.MaxSend, cfg.MaxRecv, cfg.MaxInline = int(in.max_send), int(in.max_recv), int(in.max_inline)
	}
	return qp, uint32(n), rc
}

func sysModifyQP(qp handle, t QPType, a *QPAttr) int {
	return int(C.ev_modify_qp(qp, C.uint32_t(t), (*C.struct_ev_qp_attr)(unsafe.Pointer(a))))
}

func sysDestroyQP(qp handle) int { return int(C.ev_destroy_qp(qp)) }

func sysPostSend(qp handle, ud int, wr *SendWR, n int) (posted, rc int) {
	var e C.int
	posted = int(C.ev_post_send(number(qp), C.int(ud), (*C.struct_ev_send)(unsafe.Pointer(wr)),
		C.int(n), &e))
	return posted, int(e)
}

func sysPostRecv(qp handle, wr *RecvWR, n int) (posted, rc int) {
	var e C.int
	posted = int(C.ev_post_recv(number(qp), (*C.struct_ev_recv)(unsafe.Pointer(wr)), C.int(n), &e))
	return posted, int(e)
}

func sysStatus(code uint32) string { return C.GoString(C.ev_status(C.int(code))) }
