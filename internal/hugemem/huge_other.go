//go:build !linux

package hugemem

func mapHuge(int) []byte { return nil }

func advise([]byte) {}

func available() (free, total, size int) { return 0, 0, 0 }
