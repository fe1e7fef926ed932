//go:build !unix

package verbs

func setNonblock(int) error { return nil }
