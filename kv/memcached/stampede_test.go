package memcached

import (
	"strconv"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// TestStampedes: of the clients that find an item missing, old or stale, one is told to make a new
// value.
func TestStampedes(t *testing.T) {
	s, now := newServer(t, 2, mica.Config{FirstVersion: 100})
	check(t, s, `
		mg a v N30 t
		< VA 0 t30 W
		< 
		mg a v N30
		< VA 0 Z
		< 
		ms a 3 T100
		new
		< HD
		mg a v N30 R30
		< VA 3
		< new
		md a I T20
		< HD
		mg a v t
		< VA 3 t20 X W
		< new
		mg a v t
		< VA 3 t20 Z X
		< new
		get a
		< VALUE a 0 3
		< new
		< END
		ms a 1 T20
		x
		< HD
		mg a R10
		< HD
		mg a R30 t
		< HD t20 W
		mg a R30
		< HD Z
		mg b N0 E77 c
		< HD c77 W
		mg none
		< EN`, 1000)
	*now += 20
	check(t, s, "mg a\n< EN", 1000)
	for _, piece := range []int{1, 1000} {
		s, _ := newServer(t, 1, mica.Config{FirstVersion: 100})
		check(t, s, metaScript, piece)
	}
}

// metaScript has the meta flags beside those of TestStampedes.
const metaScript = `
	ms a 1 c E500
	x
	< HD c500
	ms a 1 C400 I c
	y
	< HD c101
	mg a v
	< VA 1 X W
	< y
	ms a 1 C999 I
	z
	< EX
	md a x
	< HD
	mg a v s c
	< VA 0 s0 c101 Z X
	< 
	md a x I E600
	< HD
	mg a c
	< HD c600 X W
	md a C1 I
	< EX
	md none I
	< NF
	ms b 2 MA N60
	cd
	< HD
	ms b 2 MP s E700 c
	ab
	< HD s4 c700
	mg b v t
	< VA 4 t60
	< abcd
	ms none 1 MA C5 N10
	x
	< NS
	ma n N60 J41 v t
	< VA 2 t60
	< 41
	ma n v E800 c
	< VA 2 c800
	< 42
	ma none
	< NF
	mg h h
	< EN
	ms h 1
	x
	< HD
	mg h h u
	< HD h0
	mg h h
	< HD h0
	mg h h
	< HD h1
	mg h v C999
	< VA 1
	< x
	mg h v C106 Pp Ll
	< HD
	me h
	< ME h exp=-1 cas=106 fetch=yes cls=1 size=2
	me none
	< EN
	me aA== b
	< ME aA== exp=-1 cas=106 fetch=yes cls=1 size=2
	mg a E281474976710656
	< CLIENT_ERROR bad token in command line format
	mg a Rx
	< CLIENT_ERROR bad token in command line format
	ma a Jx
	< CLIENT_ERROR bad token in command line format
	ma made N60 J7 t
	< HD t60
	ma made
	< HD
	ma quiet N0 J3 q
	< HD
	ma quiet v
	< VA 1
	< 4
	ma shown N0 J5 v q
	< VA 1
	< 5
	ma shown v q`

// TestLateValues: a value for an older version than the item has may replace it, and leaves it its
// time, since it is out of date too. Version 0 is that of no item.
func TestLateValues(t *testing.T) {
	s, _ := newServer(t, 1, mica.Config{})
	check(t, s, `ms a 1 T30 E5
x
< HD
ms a 1 T90 C0
y
< EX
ms a 1 T90 C4
y
< EX
md a C0
< EX
ms n 1 MS T30 E5
7
< HD
ma n C0
< EX
ms a 1 MA C0
y
< EX
ms none 1 C0
y
< NF
ms a 1 I T90 C1
y
< HD
mg a t v
< VA 1 t30 X W
< y
ms a 1 I T90 C0
z
< HD
mg a t v
< VA 1 t30 Z X
< z`, 1000)
}

// TestFlushes: the last flush_all counts, and a time may be one of the calendar.
func TestFlushes(t *testing.T) {
	s, now := newServer(t, 2, mica.Config{})
	const gone, there = "\nget a b\n< END", "\nget a b\n< VALUE a 0 1\n< x\n< VALUE b 0 1\n< x\n< END"
	const set = "\nset a 0 0 1\nx\n< STORED\nset b 0 0 1\nx\n< STORED"
	check(t, s, "flush_all 3\n< OK\nflush_all\n< OK"+set, 1000)
	*now += 3
	check(t, s, there+"\nflush_all 3\n< OK"+there, 1000)
	*now += 2
	check(t, s, there, 1000)
	*now++
	check(t, s, gone+set+there, 1000)
	check(t, s, "flush_all "+strconv.Itoa(int(*now)+5)+"\n< OK"+there, 1000)
	*now += 5
	check(t, s, gone+set+"\nflush_all 1\n< OK\nflush_all 10\n< OK", 1000)
	*now++
	check(t, s, there, 1000)
}

// TestAuth: nothing is done for a client before it has shown a user and a password.
func TestAuth(t *testing.T) {
	for _, row := range []struct{ said, want string }{
		{"get a\r\nmn\r\n", "CLIENT_ERROR unauthenticated\r\n"},
		{"mn\r\nmn\r\n", "CLIENT_ERROR unauthenticated\r\n"},
		{"ms a 9\r\nflush_all\r\n", "CLIENT_ERROR unauthenticated\r\n"},
		{"set a 0 0 7\r\nme open\r\nmn\r\n", "CLIENT_ERROR authentication failure\r\n"},
		{"set a 0 0 9\r\nyou Sesam\r\nmn\r\n", "CLIENT_ERROR authentication failure\r\n"},
		{"set a 0 0 8\r\nmeSesame\r\nmn\r\n", "CLIENT_ERROR authentication failure\r\n"},
		{"set a 0 0 9000\r\n", "CLIENT_ERROR auth token too long\r\n"},
		{"get" + strings.Repeat(" a", 1<<16), "CLIENT_ERROR line too long\r\n"},
		{"set a 0 0 9\r\nme Sesame\r\nget a\r\n", "STORED\r\nEND\r\n"},
	} {
		for _, piece := range []int{1, 1000} {
			s, _ := newServer(t, 1, mica.Config{})
			s.cfg.Auth = func(user, password string) bool { return user == "me" && password == "Sesame" }
			if got := play(s, row.said, piece); got != row.want {
				t.Errorf("%.20q: %q, want %q", row.said, got, row.want)
			}
		}
	}
}

// TestStrangersMemory: a client that has shown no password has nothing of the memory that all
// share, and is told to go at the first sign that it wants some.
func TestStrangersMemory(t *testing.T) {
	blank := strings.Repeat("\r\n", 1000)
	for _, row := range []struct{ said, want string }{
		{strings.Repeat("x", baseInput), "CLIENT_ERROR line too long\r\n"},
		{"get" + strings.Repeat(" a", baseInput), "CLIENT_ERROR line too long\r\n"},
		{"set a 0 0" + strings.Repeat(" ", 3900) + "1000\r\n", "CLIENT_ERROR auth token too long\r\n"},
		{blank + "set a 0 0 9\r\nme Sesame\r\n", "CLIENT_ERROR unauthenticated\r\n"},
	} {
		for _, piece := range []int{1, 1 << 20} {
			s, _ := newServer(t, 1, mica.Config{})
			s.cfg.Auth = func(user, password string) bool { return user == "me" && password == "Sesame" }
			if got := play(s, row.said, piece); got != row.want {
				t.Errorf("%.20q: %.80q, want %q", row.said, got, row.want)
			}
			if s.lines.held+s.values.held+s.answers.held > 0 {
				t.Errorf("%.20q: it had memory of all", row.said)
			}
		}
	}
}

// TestSmallItems: values are as large as the operator allows. A cache forgets a value that a client
// could not set anew.
func TestSmallItems(t *testing.T) {
	const large = "\n< SERVER_ERROR object too large for cache\n"
	for _, mode := range []mica.Mode{mica.Cache, mica.Store} {
		s, _ := newServer(t, 1, mica.Config{Mode: mode})
		s.cfg.MaxItemSize = 5
		hello := "< VALUE a 0 5\n< hello\n< END\n"
		after := "< END\n"
		if mode == mica.Store {
			after = hello
		}
		for _, refused := range []string{"set a 0 0 6", "ms a 6", "ms YQ== 6 b", "ms a 6 MA"} {
			check(t, s, "set a 0 0 5\nhello\n< STORED\nadd a 0 0 6\nhello!"+large+
				"replace a 0 0 6\nhello!"+large+"append a 0 0 6\nhello!"+large+"get a\n"+hello+
				refused+"\nhello!"+large+"get a\n"+after, 1000)
		}
		if got := play(s, "stats\r\n", 1000); !strings.Contains(got, "STAT store_too_large 16\r\n") {
			t.Errorf("%q", got)
		}
	}
}
