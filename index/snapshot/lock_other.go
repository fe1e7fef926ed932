//go:build !linux

package snapshot

import (
	"errors"
	"os"
)

const locks = false

// lock locks nothing: what another process has left here stays, as it may be in use.
func lock(_ *os.File, wait bool) error {
	if wait {
		return nil
	}
	return errors.ErrUnsupported
}
