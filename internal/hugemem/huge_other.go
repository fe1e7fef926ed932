//go:build !linux

package hugemem

func mapHuge(int) []byte { return nil }

func grow(mem []byte, size int) ([]byte, bool) { return mem, false }

func advise([]byte) {}

func adviseBlock(uintptr) {}

func available() (free, total, size int) { return 0, 0, 0 }
