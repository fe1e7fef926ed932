package engine

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
)

// TestQuota: what one session may keep.
func TestQuota(t *testing.T) {
	const message = 1 << 20
	each := 2 * (message + message/16 + 1<<16)
	for _, c := range []struct {
		limit int64
		slots int
		want  int
	}{
		{1 << 40, 1, each}, {1 << 40, 8, 8 * each}, {64 << 20, 128, 32 << 20}, {1 << 20, 8, each},
	} {
		if got := NewBook(msgbuf.NewBudget(c.limit), true).quota(c.slots, message); got != c.want {
			t.Errorf("limit %d, %d slots: %d, want %d", c.limit, c.slots, got, c.want)
		}
	}
}
