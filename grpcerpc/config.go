package grpcerpc

import "github.com/userspace-rpc/erpc/erpc"

// The defaults of erpc's configuration.
const (
	defaultSlots      = 64
	defaultMaxMessage = 64<<20 + 1<<20 // a message of 64 MiB, with metadata
	defaultBackground = 1 << 16
	defaultCredits    = 128
)

// withDefaults fills fields that are zero, where grpcerpc has defaults other than erpc's.
func withDefaults(cfg erpc.Config) erpc.Config {
	if cfg.Slots == 0 {
		cfg.Slots = defaultSlots
	}
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = defaultMaxMessage
	}
	if cfg.Credits == 0 {
		cfg.Credits = defaultCredits // one for each slot, and some: 32 hold up most of 64 callers
	}
	if cfg.MaxBackground == 0 {
		cfg.MaxBackground = defaultBackground
	}
	return cfg
}
