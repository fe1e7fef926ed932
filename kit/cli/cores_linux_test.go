package cli

import (
	"fmt"
	"runtime"
	"slices"
)

// pinned pins the goroutine's thread, which ends with it, and looks where it may run.
func pinned(core int) error {
	runtime.LockOSThread()
	if err := PinThread(core); err != nil {
		return err
	}
	if got := AllowedCores(); !slices.Equal(got, []int{core}) {
		return fmt.Errorf("it may use %v", got)
	}
	return nil
}
