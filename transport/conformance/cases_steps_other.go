//go:build !linux

package conformance

// steps fails: only transports of Linux have descriptors.
func (r *rig) steps(fds []int) { r.Errorf("descriptors %v, and nobody here polls any", fds) }
