package etcd

import (
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/cluster"
)

// refusals has the errors by which etcd refuses a client without the right user.
var refusals = []error{
	rpctypes.ErrUserEmpty, rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed,
	rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserNotFound, rpctypes.ErrAuthNotEnabled,
}

// handshakes are the words of a connection that failed for TLS: gRPC has no code for it.
var handshakes = []string{"tls:", "x509:", "authentication handshake failed"}

// named gives an error of etcd's client the name that package cluster has for it.
func named(err error) error {
	if err == nil {
		return nil
	}
	for _, r := range refusals {
		if errors.Is(err, r) || rpctypes.Error(err) == r {
			return fmt.Errorf("%w: %w", cluster.ErrAuth, err)
		}
	}
	switch s, _ := status.FromError(err); s.Code() {
	case codes.Unauthenticated, codes.PermissionDenied:
		return fmt.Errorf("%w: %w", cluster.ErrAuth, err)
	}
	for _, words := range handshakes {
		if strings.Contains(err.Error(), words) {
			return fmt.Errorf("%w: %w", cluster.ErrTLS, err)
		}
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
}

// checkID says whether etcd is the one that is meant.
func (c *Config) checkID(h header) error {
	if c.EtcdID != 0 && h.id != c.EtcdID {
		return fmt.Errorf("%w: %x, not %x", cluster.ErrWrongEtcd, h.id, c.EtcdID)
	}
	return nil
}
