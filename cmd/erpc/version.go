package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/userspace-rpc/erpc/wire"
)

// thisBuild says which build this is.
func thisBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return buildText(info)
}

// buildText says which build this is, in two lines: the module's version and the revision it was
// made from, and what it was made with and for.
func buildText(info *debug.BuildInfo) string {
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	known := func(text, without string) string {
		if text == "" {
			return without
		}
		return text
	}
	revision := known(set["vcs.revision"], "unknown")
	if set["vcs.time"] != "" {
		revision += " of " + set["vcs.time"]
	}
	if set["vcs.modified"] == "true" {
		revision += ", modified"
	}
	with := []string{
		known(info.GoVersion, "an unknown Go"),
		known(set["GOOS"], "unknown") + "/" + known(set["GOARCH"], "unknown"),
		"cgo " + map[bool]string{true: "on", false: "off"}[set["CGO_ENABLED"] == "1"],
	}
	if set["-tags"] != "" {
		with = append(with, "tags "+set["-tags"])
	}
	with = append(with, fmt.Sprintf("wire versions %d and %d", wire.OldVersion, wire.Version))
	return "erpc " + known(info.Main.Version, "(devel)") + ", revision " + revision + "\n" +
		strings.Join(with, ", ")
}
