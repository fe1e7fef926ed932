package cli

import (
	"errors"
	"fmt"
	"syscall"
)

// Cure says what to do about an error that comes from a limit of the system; "" if there is nothing
// to say.
func Cure(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		limit := ""
		if n := openFiles(); n > 0 {
			limit = fmt.Sprintf(", %d", n)
		}
		return "this process may open no more files, sockets and eventfds" + limit +
			`: raise the limit with "ulimit -n 65536", or LimitNOFILE= of its systemd unit`
	case errors.Is(err, syscall.ENFILE):
		return `this machine may open no more files: raise the limit with "sysctl fs.file-max"`
	}
	return ""
}
