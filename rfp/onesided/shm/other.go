//go:build !linux

package shm

import (
	"errors"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Listener makes links with the processes that dial.
type Listener struct{}

// Listen returns errors.ErrUnsupported.
func Listen(string, []onesided.Spec, []onesided.Spec) (*Listener, error) {
	return nil, errors.ErrUnsupported
}

// Close does nothing.
func (*Listener) Close() error { return nil }

// Accept returns errors.ErrUnsupported.
func (*Listener) Accept() (*Link, error) { return nil, errors.ErrUnsupported }

// Dial returns errors.ErrUnsupported.
func Dial(string, []onesided.Spec, []onesided.Spec) (*Link, error) {
	return nil, errors.ErrUnsupported
}
