// Package chacha gives package security ChaCha20-Poly1305 (RFC 8439), for processors that do not
// compute AES. A program imports it for its effect. It is apart, because it takes
// golang.org/x/crypto; the endpoint takes no more than golang.org/x/sys.
//
// # Map
//
//	owns       the link to ChaCha20-Poly1305
//	called by  commands and tests that want that cipher
//	never      package security links it by itself
package chacha
