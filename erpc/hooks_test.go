package erpc_test

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// slowSigner is a key that is elsewhere, whose first answer takes long.
type slowSigner struct {
	crypto.Signer
	wait  func(context.Context) error
	asked atomic.Bool
}

func (s *slowSigner) Sign(r io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if !s.asked.Swap(true) {
		if err := s.wait(context.Background()); err != nil {
			return nil, err
		}
	}
	return s.Signer.Sign(r, digest, o)
}

// TestSlowHookCostsItsClient: while Authorize, or a callback of crypto/tls, waits for one client,
// others have their sessions. It has a context that ends, and then its client is refused and reads
// why, whether the hook heeds its context or not.
func TestSlowHookCostsItsClient(t *testing.T) {
	const slow = "spiffe://test/slow"
	for name, hook := range map[string]func(cfg *erpc.Config, wait func(context.Context) error){
		"Authorize": func(cfg *erpc.Config, wait func(context.Context) error) {
			cfg.Authorize = func(ctx context.Context, peer erpc.ConnectionState) error {
				if peer.SPIFFE().String() == slow {
					return wait(ctx)
				}
				return nil
			}
		},
		"a key elsewhere": func(cfg *erpc.Config, wait func(context.Context) error) {
			cert := &cfg.TLS.Certificates[0]
			cert.PrivateKey = &slowSigner{Signer: cert.PrivateKey.(crypto.Signer), wait: wait}
		},
		"VerifyConnection": func(cfg *erpc.Config, wait func(context.Context) error) {
			cfg.TLS.VerifyConnection = func(s tls.ConnectionState) error {
				if s.PeerCertificates[0].URIs[0].String() == slow {
					return wait(context.Background())
				}
				return nil
			}
		},
	} {
		for _, heeds := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				ca := sectest.NewCA("hooks")
				entered, end := make(chan struct{}, 1), make(chan struct{})
				defer close(end)
				cfg := erpc.Config{
					TLS: ca.Config("127.0.0.1", ""), Timing: erpc.Timing{ConnectTimeout: time.Second},
				}
				hook(&cfg, func(ctx context.Context) error {
					entered <- struct{}{}
					if heeds {
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-end:
						}
					}
					<-end
					return nil
				})
				addr := secureServer(t, cfg)
				refused := make(chan error, 1)
				go func() {
					_, err := ask(t, addr, erpc.Config{TLS: ca.Config("", slow)})
					refused <- err
				}()
				<-entered
				for range 3 {
					_, err := ask(t, addr, erpc.Config{TLS: ca.Config("", "spiffe://test/quick")})
					if err != nil {
						t.Fatalf("another client: %v", err)
					}
				}
				if err := <-refused; !errors.Is(err, erpc.ErrDenied) ||
					!strings.Contains(err.Error(), "took too long") &&
						!strings.Contains(err.Error(), "deadline exceeded") {
					t.Errorf("the client of the slow hook: %v", err)
				}
			})
		}
	}
}

// TestHookPanics: a hook that panics, or ends its goroutine, refuses the peer and nothing else.
func TestHookPanics(t *testing.T) {
	ca := sectest.NewCA("hooks")
	for name, fn := range map[string]func(){
		"panic": func() { panic("no such peer") }, "Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := erpc.Config{TLS: ca.Config("127.0.0.1", "")}
			cfg.Authorize = func(_ context.Context, peer erpc.ConnectionState) error {
				if peer.SPIFFE().Path == "/bad" {
					fn()
				}
				return nil
			}
			addr := secureServer(t, cfg)
			_, err := ask(t, addr, erpc.Config{TLS: ca.Config("", "spiffe://test/bad")})
			if !errors.Is(err, erpc.ErrDenied) || !strings.Contains(err.Error(), "Authorize panicked") {
				t.Errorf("the peer that it judged: %v", err)
			}
			if _, err := ask(t, addr, erpc.Config{TLS: ca.Config("", "spiffe://test/good")}); err != nil {
				t.Errorf("another one: %v", err)
			}
		})
	}
}
