//go:build !linux

package rc

import "github.com/userspace-rpc/erpc/internal/verbs"

// deviceWatch is for Linux only, as verbs are.
type deviceWatch struct{}

func (*deviceWatch) start(*verbs.Device, string, func(error)) error { return nil }

func (*deviceWatch) stop() {}
