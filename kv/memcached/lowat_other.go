//go:build !linux

package memcached

import "net"

// tellEarly does nothing: the kernel tells of a client that takes bytes when it likes.
func tellEarly(net.Conn) {}
