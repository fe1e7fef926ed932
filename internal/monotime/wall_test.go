package monotime

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWall: a deadline is as far ahead as it was made.
func TestWall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := WallAfter(time.Hour)
		<-time.After(10 * time.Minute)
		if d := Until(at); d != 50*time.Minute {
			t.Errorf("the deadline is %v ahead", d)
		}
		<-time.After(time.Hour)
		if d := Until(at); d != -10*time.Minute {
			t.Errorf("the deadline is %v ahead after it has passed", d)
		}
	})
}
