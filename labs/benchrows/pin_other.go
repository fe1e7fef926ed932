//go:build !linux

package benchrows

// Pin does nothing here.
func Pin(core int) {}

// PinProcess does nothing here.
func PinProcess(pid, core int) {}
