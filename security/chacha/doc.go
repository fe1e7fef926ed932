// Package chacha gives package security ChaCha20-Poly1305 (RFC 8439), for processors that do not
// compute AES. A program imports it for its effect. It is apart, because it takes
// golang.org/x/crypto; the endpoint takes no more than golang.org/x/sys.
package chacha
