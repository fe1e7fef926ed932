package chacha

import (
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/userspace-rpc/erpc/security"
)

func init() { security.Register(security.ChaCha20Poly1305, chacha20poly1305.New) }
