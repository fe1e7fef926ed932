// Package chacha gives package security ChaCha20-Poly1305 (RFC 8439), for processors that do not
// compute AES. A program imports it for its effect. It is apart, because it takes
// golang.org/x/crypto; the endpoint takes no more than golang.org/x/sys.
package chacha

import (
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/userspace-rpc/erpc/security"
)

func init() { security.RegisterChaCha20Poly1305(chacha20poly1305.New) }
