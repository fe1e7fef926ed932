//go:build !linux

package shmem

// CanBarrier reports whether this process can make others pass a barrier.
func CanBarrier() bool { return false }

func barrier() {}
