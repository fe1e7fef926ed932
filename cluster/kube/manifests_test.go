package kube

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// kinds makes objects of the kinds that the manifests have.
var kinds = map[string]func() any{
	"v1 Service":                               func() any { return new(core.Service) },
	"v1 ServiceAccount":                        func() any { return new(core.ServiceAccount) },
	"apps/v1 StatefulSet":                      func() any { return new(apps.StatefulSet) },
	"policy/v1 PodDisruptionBudget":            func() any { return new(policy.PodDisruptionBudget) },
	"rbac.authorization.k8s.io/v1 Role":        func() any { return new(rbac.Role) },
	"rbac.authorization.k8s.io/v1 RoleBinding": func() any { return new(rbac.RoleBinding) },
}

// manifests decodes the documents of a file strictly: no field that the type does not have.
func manifests(t *testing.T, text string) (list []any) {
	t.Helper()
	for _, doc := range strings.Split(text, "\n---\n") {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatal(err)
		}
		make := kinds[head.APIVersion+" "+head.Kind]
		if make == nil {
			t.Fatalf("%q of %q: no such kind here", head.Kind, head.APIVersion)
		}
		v := make()
		if err := yaml.UnmarshalStrict([]byte(doc), v); err != nil {
			t.Errorf("%s: %v", head.Kind, err)
		}
		list = append(list, v)
	}
	return list
}

// port is the one that servers have in the manifests.
const port = 31850

// pods looks at a StatefulSet: its pods are those of the Service, are asked at their port, and may
// do no more than they need.
func pods(t *testing.T, file string, s *apps.StatefulSetSpec) {
	t.Helper()
	c := s.Template.Spec.Containers[0]
	if s.ServiceName != "erpc" || s.Template.Labels["app"] != "erpc" ||
		s.Selector.MatchLabels["app"] != "erpc" || len(c.Resources.Limits) != 2 || len(c.Ports) != 1 ||
		c.Ports[0].Protocol != core.ProtocolUDP || c.Ports[0].ContainerPort != port {
		t.Errorf("%s: the StatefulSet: %+v", file, s)
	}
	for _, p := range []*core.Probe{c.ReadinessProbe, c.LivenessProbe} {
		if p == nil || p.Exec == nil ||
			!slices.Contains(p.Exec.Command, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) {
			t.Errorf("%s: a probe: %+v", file, p)
		}
	}
	pod, own := s.Template.Spec.SecurityContext, c.SecurityContext
	if pod == nil || pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot || own == nil ||
		own.ReadOnlyRootFilesystem == nil || !*own.ReadOnlyRootFilesystem ||
		own.AllowPrivilegeEscalation == nil || *own.AllowPrivilegeEscalation ||
		own.Capabilities == nil || !slices.Contains(own.Capabilities.Drop, "ALL") {
		t.Errorf("%s: pods may do more than they need: %+v %+v", file, pod, own)
	}
}

// TestManifests: the files decode strictly; the Service is headless and has the port that a Source
// looks for, its pods and the StatefulSet's are the same, and those have probes and limits. Clients
// may do what the informer does.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range manifests(t, string(text)) {
			seen++
			switch v := v.(type) {
			case *core.Service:
				p := v.Spec.Ports
				if v.Spec.ClusterIP != core.ClusterIPNone || v.Spec.Selector["app"] != "erpc" ||
					len(p) != 1 || p[0].Name != "erpc" || p[0].Protocol != core.ProtocolUDP ||
					p[0].Port != port || p[0].TargetPort.IntValue() != 0 || v.Name != "erpc" {
					t.Errorf("%s: the Service: %+v", file, v.Spec)
				}
			case *apps.StatefulSet:
				pods(t, file, &v.Spec)
			case *policy.PodDisruptionBudget:
				if v.Spec.MaxUnavailable == nil || v.Spec.MaxUnavailable.IntValue() != 1 ||
					v.Spec.Selector.MatchLabels["app"] != "erpc" {
					t.Errorf("%s: the budget: %+v", file, v.Spec)
				}
			case *rbac.Role:
				r := v.Rules
				if len(r) != 1 || strings.Join(r[0].Resources, " ") != "endpointslices" ||
					strings.Join(r[0].APIGroups, " ") != discovery.GroupName ||
					strings.Join(r[0].Verbs, " ") != "list watch" || v.Name != "erpc-client" {
					t.Errorf("%s: the role: %+v", file, v)
				}
			case *rbac.RoleBinding:
				want := rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: "erpc-client"}
				if v.RoleRef != want || len(v.Subjects) != 1 ||
					v.Subjects[0] != (rbac.Subject{Kind: rbac.ServiceAccountKind, Name: "erpc-client"}) {
					t.Errorf("%s: the binding: %+v", file, v)
				}
			case *core.ServiceAccount:
				if v.Name != "erpc-client" {
					t.Errorf("%s: the account: %s", file, v.Name)
				}
			}
		}
	}
	if seen < 6 {
		t.Errorf("%d objects", seen)
	}
}

// TestDeployPage: the YAML of docs/deploy.md is that of deploy/kubernetes/erpc.yaml.
func TestDeployPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("../../deploy/kubernetes/erpc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	if text != string(file) {
		t.Error("docs/deploy.md and deploy/kubernetes/erpc.yaml differ")
	}
}
