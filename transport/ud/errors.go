package ud

import (
	"errors"
	"fmt"
)

// Faults; errors of this package wrap one of these, transport.ErrUnsupported, or
// an error of internal/verbs.
var (
	ErrNoDevice = errors.New("no such RDMA device")
	ErrNoPort   = errors.New("the device has no such port")
	ErrPortDown = errors.New("the port is not active")
	ErrNoGID    = errors.New("no such GID")
	ErrMTU      = errors.New("larger than the link's MTU")
	ErrMemlock  = errors.New(
		"the limit on locked memory is too low (ulimit -l, or the container's memlock)")
	ErrExhausted  = errors.New("the device has no more queue pairs or memory for them")
	ErrNoAnswer   = errors.New("no endpoint answers there")
	ErrMismatch   = errors.New("the peer has another link layer or kind of GID")
	ErrFull       = errors.New("the peer's table of peers is full")
	ErrNoWay      = errors.New("no way to the peer's GID")
	ErrDeviceGone = errors.New("the device is gone")
	ErrGIDGone    = errors.New("the GID is gone from the port")
)

// ConfigError says what of the configuration does not fit this machine.
type ConfigError struct {
	Field  string // of Config, or "addr"
	Value  any
	Reason string // more than Err tells; may be empty
	Err    error
}

// Error implements error.
func (e *ConfigError) Error() string {
	s := fmt.Sprintf("ud: %s = %v: %v", e.Field, e.Value, e.Err)
	if e.Value == "" {
		s = fmt.Sprintf("ud: %v", e.Err)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Unwrap returns e.Err.
func (e *ConfigError) Unwrap() error { return e.Err }

// PeerError says why a peer could not be met.
type PeerError struct {
	Addr string // whom we wanted to meet
	Err  error  // ErrNoAnswer, ErrMismatch, ErrFull, ErrNoWay
	More error  // the system's reason, or nil
}

// Error implements error.
func (e *PeerError) Error() string {
	s := fmt.Sprintf("ud: peer %s: %v", e.Addr, e.Err)
	if e.More != nil {
		s += fmt.Sprintf(" (%v)", e.More)
	}
	return s
}

// Unwrap returns both errors.
func (e *PeerError) Unwrap() []error {
	if e.More == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.More}
}

// DeviceError says why an endpoint cannot be used any more.
type DeviceError struct {
	Device string
	Port   int
	Err    error
}

// Error implements error.
func (e *DeviceError) Error() string {
	return fmt.Sprintf("ud: %s port %d: %v", e.Device, e.Port, e.Err)
}

// Unwrap returns e.Err.
func (e *DeviceError) Unwrap() error { return e.Err }
