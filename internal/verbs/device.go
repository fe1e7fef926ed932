package verbs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Cures of a MissingError.
const (
	mendCgo     = "build with CGO_ENABLED=1 and a C compiler"
	mendHeader  = "install libibverbs-dev (rdma-core-devel) and build again: go build -a"
	mendLibrary = "install libibverbs1 and ibverbs-providers (libibverbs)"
)

func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

var loaded = sync.OnceValue(sysLoad)

// Available says what this program or machine lacks, as a *MissingError, or nil if verbs
// can be used. That there is a device is another question.
func Available() error {
	if e := loaded(); e != nil {
		return e
	}
	return nil
}

// Devices returns the names of the devices, such as "mlx5_0". No device, or a
// kernel without verbs, is an empty list. Errors: *MissingError, *Error.
func Devices() ([]string, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	names := make([]byte, 1<<14)
	n := sysDevices(names)
	if n == -int(syscall.ENOSYS) { // no RDMA in this kernel
		return nil, nil
	}
	if err := failed("ibv_get_device_list", n); err != nil {
		return nil, err
	}
	var list []string
	for range n {
		name := text(names)
		list = append(list, name)
		names = names[len(name)+1:]
	}
	return list, nil
}

// Device is an opened device.
type Device struct {
	name string
	h    handle
}

// Open opens a device by its name. The caller must Close it. Errors: *MissingError, or an
// *Error of ENODEV if there is no such device.
func Open(name string) (*Device, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if strings.IndexByte(name, 0) >= 0 {
		return nil, &Error{Op: "ibv_open_device", Err: syscall.ENODEV}
	}
	h, rc := sysOpen(name)
	if err := failed("ibv_open_device", rc); err != nil {
		return nil, err
	}
	return &Device{name: name, h: h}, nil
}

// Name returns the device's name.
func (d *Device) Name() string { return d.name }

// Close closes the device. All that was made from it must be closed before.
func (d *Device) Close() error { return failed("ibv_close_device", sysClose(d.h)) }

// Attr returns the device's attributes.
func (d *Device) Attr() (a DeviceAttr, err error) {
	err = failed("ibv_query_device", sysQueryDevice(d.h, &a))
	return a, err
}

// Port returns the attributes of a port, numbered from 1.
func (d *Device) Port(port int) (a PortAttr, err error) {
	if port < 1 || port > 255 {
		return a, &Error{Op: "ibv_query_port", Err: syscall.EINVAL}
	}
	err = failed("ibv_query_port", sysQueryPort(d.h, port, &a))
	return a, err
}

// GIDs returns the entries of the port's GID table that are in use.
func (d *Device) GIDs(port int) ([]GIDEntry, error) {
	a, err := d.Port(port)
	if err != nil {
		return nil, err
	}
	var list []GIDEntry
	for i := range int(a.GIDs) {
		e := GIDEntry{Index: i}
		if sysQueryGID(d.h, port, i, &e.GID) != 0 || e.GID == (GID{}) {
			continue // empty entries are errors on some kernels
		}
		e.Type, e.Iface = d.gidAttr(port, "types", i), d.gidAttr(port, "ndevs", i)
		list = append(list, e)
	}
	return list, nil
}

// gidAttr reads an attribute of a GID in the kernel's sysfs-class-infiniband.
func (d *Device) gidAttr(port int, attr string, index int) string {
	name := filepath.Join("/sys/class/infiniband", d.name, "ports", fmt.Sprint(port), "gid_attrs",
		attr, fmt.Sprint(index))
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Node returns the path of the device's node, which goes away with the device; "" if it
// is not known.
func (d *Device) Node() string {
	list, err := filepath.Glob(filepath.Join("/sys/class/infiniband_verbs", "uverbs*", "ibdev"))
	if err != nil {
		return ""
	}
	for _, file := range list {
		if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == d.name {
			return filepath.Join("/dev/infiniband", filepath.Base(filepath.Dir(file)))
		}
	}
	return ""
}

// AsyncFD returns the descriptor that is readable when there is an Event. It belongs to the device.
func (d *Device) AsyncFD() int { return sysAsyncFD(d.h) }

// Event takes the next asynchronous event. It blocks if there is none, unless AsyncFD was
// made non-blocking; then the error is EAGAIN.
func (d *Device) Event() (e Event, err error) {
	err = failed("ibv_get_async_event", sysAsyncEvent(d.h, &e))
	return e, err
}

// PD is a protection domain: what belongs together.
type PD struct {
	h handle
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	h, rc := sysAllocPD(d.h)
	if err := failed("ibv_alloc_pd", rc); err != nil {
		return nil, err
	}
	return &PD{h}, nil
}

// Close frees the domain.
func (p *PD) Close() error { return failed("ibv_dealloc_pd", sysDeallocPD(p.h)) }

// AH is an address handle: where datagrams go.
type AH struct {
	h handle
}

// CreateAH makes an address handle. On Ethernet the kernel looks for the neighbour,
// which may take a second; nobody there is an *Error. Safe from any goroutine.
func (p *PD) CreateAH(a AHAttr) (*AH, error) {
	h, rc := sysCreateAH(p.h, &a)
	if err := failed("ibv_create_ah", rc); err != nil {
		return nil, err
	}
	return &AH{h}, nil
}

// Handle returns the handle as SendWR holds it, valid until Close.
func (a *AH) Handle() uint64 { return uint64(uintptr(a.h)) }

// Close frees the handle. No work request may refer to it any more.
func (a *AH) Close() error { return failed("ibv_destroy_ah", sysDestroyAH(a.h)) }
