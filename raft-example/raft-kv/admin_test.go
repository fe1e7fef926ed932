package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/security/sectest"
)

const (
	clientsKey = "11111111111111111111111111111111\n"
	membersKey = "22222222222222222222222222222222\n"
	adminsKey  = "33333333333333333333333333333333\n"
)

// keyed returns the flags of shared keys.
func keyed(t *testing.T, keys string) secure.Flags {
	t.Helper()
	return secure.Flags{PSKFile: writeFile(t, keys)}
}

// as has an operator's commands use other keys.
func (o *operator) as(sec secure.Flags) *operator {
	c := *o
	c.flags = append(slices.Clone(o.flags[:3]), sec.Args()...)
	return &c
}

// TestAdmins: with a role of admins their commands are refused to clients and to members, by name,
// and change nothing; reads, writes and status are not. Admins' are done.
func TestAdmins(t *testing.T) {
	ca := sectest.NewCA("ours")
	clients := keyed(t, clientsKey)
	for name, c := range map[string]struct {
		server, client, member, admin secure.Flags
		roles                         roleFlags
		hint                          string
	}{
		"TLS": {
			server: certified(t, ca, "spiffe://store/member/1"),
			client: certified(t, ca, "spiffe://store/reader/1"),
			member: certified(t, ca, "spiffe://store/member/2"),
			admin:  certified(t, ca, "spiffe://store/admin/1"),
			roles: roleFlags{PeerName: []string{"spiffe://store/member/*"},
				AdminName: []string{"spiffe://store/admin/*"}},
			hint: "known by the names in their certificates",
		},
		"PSK": {clients, clients, keyed(t, membersKey), keyed(t, adminsKey),
			roleFlags{PeerPSKFile: writeFile(t, membersKey), AdminPSKFile: writeFile(t, adminsKey)},
			"known by their shared key"},
	} {
		t.Run(name, func(t *testing.T) {
			o := operateWith(t, 3, t.TempDir(), c.server, c.roles)
			dir := t.TempDir()
			backup := filepath.Join(dir, "store.bak")
			fresh := o.join(4, 5, append(append(c.server.Args(), c.roles.args()...), "--join")...)
			next := o.leader()%3 + 1
			commands := []string{"member learner 4 " + fresh.addr, fmt.Sprint("member lead ", next),
				"backup " + backup, "upgrade",
				fmt.Sprintf("members 1=%s,2=%s,3=%s,4=%s", o.f.addrs()[0], o.f.addrs()[1],
					o.f.addrs()[2], fresh.addr)}
			forced := []string{"member remove 3 --force", "member add 4 " + fresh.addr + " --force"}
			for _, sec := range []secure.Flags{c.client, c.member} {
				other := o.as(sec)
				other.want("status", cli.Done, "admin commands are taken from admins, "+c.hint)
				before := o.changeable()
				for _, line := range slices.Concat(commands, forced) {
					other.want(line, cli.Failed, "this client is no admin", "--admin-name", c.hint)
				}
				if got := o.changeable(); got != before {
					t.Errorf("before %s, after %s", before, got)
				}
				if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
					t.Errorf("%v, %v", list, err)
				}
				other.want("put key x", cli.Done, "ok\n")
			}
			admin := o.as(c.admin)
			for _, line := range commands {
				want := "ok\n" // not: it was so already
				if strings.HasPrefix(line, "backup") {
					want = "has the state"
				} else if line == "upgrade" {
					want = "version is 2\n"
				}
				admin.want(line, cli.Done, want)
			}
		})
	}
}

// changeable is what admin commands change, as the leader has it; but not who leads, since another
// one may at any time.
func (o *operator) changeable() string {
	o.t.Helper()
	r, err := leaderOf(testContext(o.t), o.cf, o.f.addrs())
	if err != nil {
		o.t.Fatal(err)
	}
	return fmt.Sprint(r.Version, r.Members, r.Voters, r.Learners)
}

// TestRoleMistakes: a member does not start with roles that are none, or that give members or
// clients more than their own, and says so in a line.
func TestRoleMistakes(t *testing.T) {
	ca := sectest.NewCA("ours")
	certificate, key := certified(t, ca, "spiffe://store/member/1"), keyed(t, clientsKey)
	member, psk := certificate.Args(), key.Args()
	peers, admins := "--peer-psk-file="+writeFile(t, membersKey), "--admin-psk-file="
	peerName := "--peer-name=spiffe://store/member/*"
	for _, c := range []struct {
		base, more []string
		want       string
	}{
		{psk, []string{admins + writeFile(t, "# mine\n"+adminsKey+clientsKey)},
			"key 2 is one of --psk-file"},
		{psk, []string{peers, admins + writeFile(t, membersKey)}, "key 1 is one of --peer-psk-file"},
		{psk, []string{"--peer-psk-file=" + writeFile(t, clientsKey+membersKey)},
			"--psk-file, too, so all clients would be members"},
		{psk, []string{admins + writeFile(t, "no key")}, "line 1 is neither"},
		{psk, []string{admins + "/no/such/file"}, "--admin-psk-file: open /no/such/file"},
		{psk, []string{"--admin-name=a"}, "--admin-name needs --tls-cert and --tls-ca"},
		{psk, []string{"--trust-local", admins + writeFile(t, adminsKey)},
			"--trust-local stands beside --admin"},
		{member, []string{admins + writeFile(t, adminsKey)}, "--admin-psk-file needs --psk-file"},
		{member, []string{"--admin-name=spiffe://store/admin/["}, "not a pattern"},
		{member, []string{"--admin-name=spiffe://store/*/*"}, "members are no admins"},
		{member, []string{"--admin-name=127.*"}, "members are no admins"},
		{member, []string{peerName, "--admin-name=spiffe://store/member/*"}, "would match both"},
		{member, []string{peerName, "--admin-name=spiffe://store/member/ann*"}, "would match both"},
		{member, []string{peerName, "--admin-name=spiffe://*/member/*"}, "would match both"},
		{member, []string{peerName, "--admin-name=spiffe://*/*/bob"}, "would match both"},
	} {
		status, out, errOut := runCommand(t, slices.Concat([]string{"server", "--id=1", "--join",
			"--addr=127.0.0.1:0"}, c.base, c.more)...)
		if status != cli.Usage || out != "" || !strings.Contains(errOut, c.want) ||
			strings.Count(errOut, "\n") != 1 {
			t.Errorf("%q: status %d, %q, %q, want %q", c.more, status, out, errOut, c.want)
		}
	}
}

// TestNoAdmins: without a role of admins any client is one. A line at start and the status say so.
func TestNoAdmins(t *testing.T) {
	const want = "admin commands are taken from any client"
	o := operate(t, 1, "")
	o.want("status", cli.Done, want+"\n")
	o.want("member lead 1", cli.Done, "already")
	o.f.children[0].stop()
	if said := o.f.children[0].text(); strings.Count(said, want) != 1 {
		t.Error(said)
	}
}
