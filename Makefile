# "make help", which is the first target: what there is for those who use erpc. "make help-dev" has
# what is for those who change it, "make help-labs" what measures and compares (labs/Makefile).
GO        ?= go
MAKEFLAGS += --no-print-directory

.PHONY: help help-dev help-labs check-go build demo test lint clean
help:
	@echo 'make build       bin/erpc, the command: try "bin/erpc --help", "bin/erpc doctor"'
	@echo 'make demo        build, then measured calls between two processes of this machine'
	@echo 'make watch-demo  a server, a load and a web page that shows them; WATCHFLAGS'
	@echo 'make grpc-demo   the same stubs over grpc-go and over grpcerpc, UDP and shared memory: a table'
	@echo 'make raft-demo   three replicas, writes, kill -9 of the leader, a check that nothing is lost'
	@echo 'make index-demo  an index server, a million keys, GETs and scans: a table beside the paper'
	@echo 'make kv-demo     a key-value cache, a million keys, GETs and PUTs: a table beside the paper'
	@echo 'make cluster-demo  servers on etcd that die, drain and come under load: what clients saw of it'
	@echo 'make bench       the rates and latencies of this machine, with plots; into out/bench'
	@echo 'make test        all tests; the core once more with assertions on'
	@echo 'make lint        gofmt, vet, house rules, builds for other systems, staticcheck'
	@echo 'make site        the documents as a site in out/site (needs mkdocs-material); make site-serve'
	@echo 'make clean       removes bin/, dist/ and out/'
	@echo 'make help-dev    more tests, fuzzing, mutants, releases: for those who change erpc'
	@echo 'make help-labs   erpc beside other libraries, TLS, hostile peers, papers: labs/README.md'

check-go:
	@command -v $(GO) >/dev/null || { echo 'erpc needs Go 1.26 or newer, and there is no "$(GO)" command: see https://go.dev/dl' >&2; exit 1; }
	@v=$$($(GO) env GOVERSION 2>/dev/null || GOTOOLCHAIN=local $(GO) version | cut -d' ' -f3); \
	n=$${v#go}; major=$${n%%.*}; minor=$${n#*.}; minor=$${minor%%[!0-9]*}; \
	case "$$v" in devel*) exit 0;; esac; \
	if [ "$${major:-0}" -lt 1 ] || { [ "$$major" -eq 1 ] && [ "$${minor:-0}" -lt 26 ]; }; then \
		echo "erpc needs Go 1.26 or newer, and this is $$v: see https://go.dev/dl" >&2; exit 1; fi

# Whether git knows this tree: a build asks it for the revision that erpc --version shows.
VCS = $(shell git status --porcelain >/dev/null 2>&1 && echo true || echo false)

# The commands of the root need none of the other modules: so a first build fetches nothing for them.
ALONE = GOWORK=off $(GO)

build: check-go
	@test -d cmd/erpc || { echo 'make build: there is no ./cmd/erpc' >&2; exit 1; }
	$(ALONE) build -buildvcs=$(VCS) -o bin/erpc ./cmd/erpc

demo: build
	bin/erpc demo

# A server, a load and the page of erpc top; WATCHFLAGS="--http :8080 --for 1m".
.PHONY: watch-demo
WATCHFLAGS =
watch-demo: build
	bin/erpc watch-demo $(WATCHFLAGS)

.PHONY: bin/grpc-demo grpc-demo
bin/grpc-demo: check-go
	cd grpcerpc && $(GO) build -buildvcs=false -o ../bin/grpc-demo ./examples/demo

grpc-demo: bin/grpc-demo
	bin/grpc-demo

.PHONY: bin/raft-kv raft-demo
bin/raft-kv: check-go
	cd raft-example && $(GO) build -buildvcs=false -o ../bin/raft-kv ./raft-kv

raft-demo: bin/raft-kv
	bin/raft-kv demo
	bin/raft-kv demo --durable

.PHONY: bin/erpc-index index-demo
bin/erpc-index: check-go
	$(ALONE) build -buildvcs=$(VCS) -o bin/erpc-index ./cmd/erpc-index

index-demo: bin/erpc-index
	bin/erpc-index demo

.PHONY: bin/erpc-kv kv-demo
bin/erpc-kv: check-go
	$(ALONE) build -buildvcs=$(VCS) -o bin/erpc-kv ./cmd/erpc-kv

kv-demo: bin/erpc-kv
	bin/erpc-kv demo

.PHONY: bin/erpc-cluster cluster-demo
bin/erpc-cluster: check-go
	cd cluster/demo && $(GO) build -buildvcs=false -o ../../bin/erpc-cluster ./erpc-cluster

cluster-demo: bin/erpc-cluster
	bin/erpc-cluster demo --for 1m

.PHONY: cluster-bars
CLUSTERFLAGS =
cluster-bars: bin/erpc-cluster
	bin/erpc-cluster bars $(CLUSTERFLAGS)

# mkdocs and mkdocs-material from the system; Debian: apt-get install mkdocs-material.
.PHONY: site site-serve
site:
	@command -v mkdocs >/dev/null || { echo 'make site: mkdocs is missing: apt-get install mkdocs mkdocs-material' >&2; exit 1; }
	mkdocs build --strict --quiet --clean
	python3 scripts/site/links.py out/site

site-serve:
	mkdocs serve --dev-addr 127.0.0.1:8000

clean:
	rm -rf bin dist out

# --- For those who change erpc ---------------------------------------------------------------

help-dev:
	@echo 'make race    short tests under the race detector (needs a C compiler)'
	@echo 'make seeds   the simulators, with as many new seeds as SEEDTIME ($(SEEDTIME)) for each kind allows'
	@echo 'make hostile hostile peers and networks against servers, HOSTILETIME ($(HOSTILETIME)) for each test'
	@echo 'make failures      servers that die, stop, vanish, hang, drain, restart, move: a table beside grpc-go'
	@echo 'make failures-pairs   ... the cells that have all pairs of values: two to three minutes'
	@echo 'make soak    callers, cancellations, bad handlers, race detector, for SOAK ($(SOAK))'
	@echo 'make soak-tls    ... with mutual TLS and an update of the keys every second'
	@echo 'make fuzz    every fuzz target for FUZZTIME ($(FUZZTIME)) each'
	@echo 'make test-rdma   InfiniBand and RoCE: real verbs in a guest kernel (Debian; installs QEMU with apt)'
	@echo 'make raft-chaos       replicas that are killed, stopped, cut off and replaced for CHAOSTIME ($(CHAOSTIME))'
	@echo 'make raft-upgrade     replicas that go from an older program to this one and back, under load, for UPGRADETIME'
	@echo 'make raft-big         memory and pauses of members with BIGBYTES ($(BIGBYTES)) of keys and values'
	@echo 'make cluster-bars     deaths, etcd away, rolling restarts, lost zones beside bars, two minutes; CLUSTERFLAGS'
	@echo 'make hraft-suite      hashicorp/raft has its own tests run over memory, TCP and hraft'
	@echo 'make grpc-suite       grpc-go has its own tests run over grpcerpc; make grpc-suites other software for it (SUITES); grpc-suites-all both, also with shm and with loss'
	@echo 'make memcached-suite  memcached has its own tests run over erpc-kv, on Debian, with its source package'
	@echo 'make index-oracle     10 M random operations on the index beside a model, 20 000 seeded schedules'
	@echo 'make gopt-random      programs of random functions, translated and compared, for GOPTTIME ($(GOPTTIME))'
	@echo 'make kv-limit         items of random sizes for LIMITTIME ($(LIMITTIME)): caches and stores keep their limits'
	@echo 'make paths            clients and servers on networks that misbehave, and their bars; as root; CASES'
	@echo 'make mutants PKG=wire  how many small faults the tests of a package notice; hours for a large one'
	@echo 'make mutants-security  takes the guards of security away one by one; a test must notice each'
	@echo 'make callpath  functions and files that one call goes through, by package'
	@echo 'make plots   the simulated plots of the site anew; minutes'
	@echo 'make licenses         THIRD_PARTY.txt: what the commands link, and under which license'
	@echo 'make rehearsal        a release of all modules in a clone, fetched, built and run from there'
	@echo 'make release-check    goreleaser checks .goreleaser.yaml; make release-dry builds all archives into dist/'

#   GOTEST     further flags for go test, such as -count=1 or -v
#   RACED      modules of make race; without it all but labs/, the browser's and cluster/kube/
#   JOBS       modules that are tested side by side; half of the cores without it
#   FUZZTIME   how long each fuzz target runs
#   FUZZJOBS   fuzz targets that run side by side; as many as cores without it
#   FUZZ       a folder whose fuzz targets run; all without it
#   HOSTILETIME  how long each test of make hostile makes trouble
#   HOSTILESEED  the seed of its choices; a new one without it
#   CELLS      a regular expression of the cells of make failures, such as udp/.*/pool/kill
#   ROUNDS     of each of these cells; the table has their medians
#   SOAK       how long make soak goes on
#   SEEDTIME   how long make seeds runs each simulator
#   FROM       its first seed; changes with the date without it
#   CHAOSTIME  how long make raft-chaos makes trouble
#   CHAOSSEED  the seed of its choices; a new one without it
#   UPGRADETIME  how long make raft-upgrade goes up and down
#   BIGBYTES   the size of the store of make raft-big
#   BIGMEMBERS its members, each of which takes three times that in memory and on disk
#   KINDS      the transports of make hraft-suite, of inmem, tcp and hraft; all without it
#   SUITEFLAGS its flags, such as -test.run=HasExistingState -test.count=100
#   SUITES     what make grpc-suites runs of interop, conformance, middleware, grpcurl, gateway,
#              otelgrpc, ghz, examples
#   LIMITTIME  how long make kv-limit runs
#   PKG        the packages of make mutants, such as "wire msgbuf"
#   MIN        the share of mutants to kill, in per cent
#   SAMPLE     how many mutants make mutants draws of each package; all without it
#   SEED       the seed of that sample
#   FORCE      1: run files again that have not changed
#   WORKERS    mutants at a time; one per CPU without it

FUZZTIME  ?= 10s
LIMITTIME ?= 1m
FUZZJOBS  ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ      ?=
PKG       ?=
MIN       ?= 90
SAMPLE    ?= 0
SEED      ?= 1
FORCE     ?=
WORKERS   ?= 0
HOSTILETIME ?= 3m
CELLS     ?=
ROUNDS    ?= 5
SOAK      ?= 1h
HOSTILESEED ?= 0
CHAOSTIME ?= 10m
UPGRADETIME ?= 10s
BIGBYTES ?= 1073741824
BIGMEMBERS ?= 4
CHAOSSEED ?= 0
SEEDTIME  ?= 10m
FROM      ?= $(shell date +%Y%m%d%H)0000
KINDS     ?=
SUITEFLAGS ?=
GOTEST    ?=

# Every folder with a go.mod is a module; the commands below run in each.
MODULES := $(sort $(patsubst %/,%,$(dir $(shell find . \( -name '.?*' -o -name testdata -o -name out \) -prune -o -name go.mod -print))))

# Packages that also run with assertions compiled in, those that have any and their simulators. It
# looks at the same steps again: so with -short.
CORE := $(addprefix ./,$(addsuffix /...,msgbuf session erpc transport/sim transport/conformance index))

# Modules that are not released.
OWN := %/browsertest %/demo %/ecosystem %/modproxy

# Systems that must build besides this one.
CROSS := linux/arm64 darwin/arm64 windows/amd64 linux/386 linux/arm

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GREMLINS    := v0.6.0
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.14.3

# Modules side by side: a job for two cores, since go test and go vet use two themselves.
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); test $$n -ge 4 && echo $$((n / 2)) || echo 1)

# The race detector looks at the library and its commands, and at what of labs/ has their goroutines
# (OWNLABS). Programs that measure others, a browser's test and that of client-go have few of their
# own, and their dependencies take minutes to compile for it. No vet there: make vet and make test
# have the same source.
RACED ?= $(filter-out ./labs %/browsertest %/kube,$(MODULES))
DOCTESTS = /internal/\(lint\|packaging\|pages\)$$
OWNLABS = ./benchrows ./cmd/... ./raft/lab ./raft/simlab

# each,NAME,COMMAND runs a shell command in every module. It goes on when one fails, and fails at
# the end. The output is in out/NAME too.
each = scripts/modules $(JOBS) out/$(1) "$(MODULES)" '$(2)'

.PHONY: race seeds hostile failures failures-pairs soak soak-tls fuzz fmt vet house cross staticcheck test-rdma
.PHONY: raft-chaos raft-upgrade raft-big hraft-suite grpc-suite grpc-suites grpc-suites-all
.PHONY: memcached-suite index-oracle kv-limit gopt-random

test: check-go
	@status=0; \
	$(call each,test,$(GO) test $(GOTEST) ./...) || status=1; \
	echo '[.] with assertions'; $(GO) test $(GOTEST) -short -tags invariants $(CORE) || status=1; \
	$(GO) run ./scripts/budget out/test/*.log || status=1; \
	exit $$status

lint: fmt vet house cross staticcheck

fmt: check-go
	@bad=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	if [ -n "$$bad" ]; then echo "not formatted, run gofmt -w:" >&2; echo "$$bad" >&2; exit 1; fi

vet: check-go
	@$(call each,vet,$(GO) vet ./...)

# -count=1: the tests read files that the test cache need not know about.
house: check-go
	$(GO) test -count=1 ./internal/lint

# vet also type-checks the tests of each system, which build does not. Programs that measure others
# are for this one, and so are modules that are not released. client-go takes minutes to compile.
cross: check-go
	@set -e; for m in $(filter-out %/kube $(OWN),$(MODULES)); do \
		echo "[$$m] build without cgo"; (cd "$$m" && CGO_ENABLED=0 $(GO) build ./...); \
	done
	@set -e; for m in $(filter-out ./labs %/kube $(OWN),$(MODULES)); do for p in $(CROSS); do \
		echo "[$$m] build and vet for $$p"; \
		(cd "$$m" && export CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} && $(GO) build ./... && $(GO) vet ./...); \
	done; done
	@set -e; for p in $(CROSS); do echo "[./labs] vet of $(OWNLABS) for $$p"; \
		(cd labs && CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet $(OWNLABS)); done

# Skipped where it cannot be fetched, except in CI.
staticcheck: check-go
	@if $(GO) run $(STATICCHECK) -version >/dev/null 2>&1; then \
		set -e; for m in $(MODULES); do echo "[$$m] staticcheck"; (cd "$$m" && $(GO) run $(STATICCHECK) ./...); done; \
	elif [ "$$CI" = true ]; then \
		echo 'make staticcheck: cannot fetch $(STATICCHECK)' >&2; exit 1; \
	else echo 'staticcheck skipped: $(STATICCHECK) cannot be fetched'; fi

race: check-go
	@test "$$($(GO) env CGO_ENABLED)" = 1 && command -v $$($(GO) env CC | cut -d' ' -f1) >/dev/null || \
		{ echo 'make race: the race detector needs a C compiler and CGO_ENABLED=1: install gcc' >&2; exit 1; }
	@status=0; \
	scripts/modules $(JOBS) out/race "$(RACED)" \
		'$(GO) test $(GOTEST) -race -tags erpc_strict_race -short -vet=off $$($(GO) list ./... | grep -v "$(DOCTESTS)")' || status=1; \
	echo '[./labs] $(OWNLABS)'; (cd labs && \
		$(GO) test $(GOTEST) -race -tags erpc_strict_race -short -vet=off $(OWNLABS)) \
		>out/race/labs.log 2>&1 || status=1; cat out/race/labs.log; \
	$(GO) test $(GOTEST) -race -vet=off -run '^TestNoFalseRace$$' ./erpc || status=1; \
	$(GO) run ./scripts/budget -times 2 out/race/*.log || status=1; \
	exit $$status

# Fixed seeds are in make test; these begin elsewhere each hour. A failure names its seed.
SEEDS_ARGS = -count=1 -timeout 0 -run TestSeeds -for $(SEEDTIME) -from $(FROM)
seeds: check-go
	$(GO) test $(GOTEST) ./erpc/simtest -v $(SEEDS_ARGS)
	$(GO) test $(GOTEST) ./rfp/simtest -v $(SEEDS_ARGS)
	cd raft-example && $(GO) test $(GOTEST) ./simtest -v $(SEEDS_ARGS)
	cd raft-example && $(GO) test $(GOTEST) ./simtest -v $(SEEDS_ARGS) -long
	cd cluster && $(GO) test $(GOTEST) ./etcd -count=1 -timeout 0 -run TestSeeds -cluster.seeds 10000 \
		-cluster.from $(FROM)

# make test runs the same tests for some seconds each.
hostile: check-go
	$(GO) test $(GOTEST) -count=1 -v -timeout 0 ./erpc/hostiletest \
		-hostile.for $(HOSTILETIME) -hostile.seed $(HOSTILESEED)

# As root: cells whose processes need network namespaces are passed over without. Hours for all;
# out/failures.json has the figures.
FAILURES = cd labs && $(GO) test $(GOTEST) ./failures -count=1 -v -timeout 0 -run '^TestMatrix$$' \
	-failures.json $(CURDIR)/out/failures.json
failures: check-go
	@mkdir -p out
	$(FAILURES) -failures all -failures.rounds $(ROUNDS) -failures.only '$(CELLS)'

failures-pairs: check-go
	@mkdir -p out
	$(FAILURES) -failures pairs

# make test runs it for some seconds, without the race detector. HOSTILESEED as above.
soak: check-go
	$(GO) test $(GOTEST) -race -tags erpc_strict_race -count=1 -v -timeout 0 -run '^TestSoak$$' ./erpc/hostiletest \
		-hostile.for $(SOAK) -hostile.seed $(HOSTILESEED)

soak-tls: check-go
	$(GO) test $(GOTEST) -race -tags erpc_strict_race -count=1 -v -timeout 0 -run '^TestSoakTLS$$' ./erpc/hostiletest \
		-hostile.for $(SOAK) -hostile.seed $(HOSTILESEED)

# The go command does not see that a system header came or changed; its checksum among the
# flags makes it look.
VERBS_CFLAGS = -O2 -g -DVERBS_HEADER=$$(cksum </usr/include/infiniband/verbs.h | cut -d' ' -f1)
RDMA = CGO_ENABLED=1 CGO_CFLAGS="$(VERBS_CFLAGS)" $(GO) test $(GOTEST) -count=1 -p 1 -timeout 700s

# Needs no RDMA device and no KVM: see scripts/rdma-lab. First what a build without the header says.
test-rdma: check-go
	scripts/rdma-lab need
	CGO_ENABLED=1 CGO_CFLAGS="-DERPC_NO_VERBS_HEADER" $(GO) test $(GOTEST) -count=1 -run 'Missing|Without' ./internal/verbs ./transport/ud
	$(RDMA) -exec "$(CURDIR)/scripts/rdma-lab run" ./internal/verbs ./transport/ud ./kv/herd/rdma ./rfp/onesided/rc
	RDMA_LAB_NETEM="delay 50us loss 1% duplicate 1% reorder 5%" \
		$(RDMA) -exec "$(CURDIR)/scripts/rdma-lab run" ./kv/herd/rdma
	$(RDMA) -exec "$(CURDIR)/scripts/rdma-lab run" -run TestDesigns ./cmd/erpc-kv
	cd labs && $(RDMA) -exec "$(CURDIR)/scripts/rdma-lab run" -run TestRdma ./cmd/erpc-rfp
	$(RDMA) -exec "$(CURDIR)/scripts/rdma-lab run env ERPC_UDPTEST_TRANSPORT=ud" -short \
		-run 'TestServerKilled|TestServerRestarts|TestTwoProcesses|TestEightProcesses|TestLoss|TestLargeMessages' ./erpc/udptest
	RDMA_LAB_NETEM="delay 50us loss 1% duplicate 1% reorder 5%" \
		$(RDMA) -exec "$(CURDIR)/scripts/rdma-lab run env ERPC_UDPTEST_TRANSPORT=ud" -short \
		-run 'TestServerKilled|TestServerRestarts|TestTwoProcesses|TestEightProcesses' ./erpc/udptest
	$(RDMA) -exec "$(CURDIR)/scripts/rdma-lab run" -run "TestUd|TestDoctorVerbs" ./cmd/erpc ./cmd/erpc/measure

# One target for each core. FUZZ=./wire runs those of a folder.
fuzz: check-go
	@scripts/fuzz "$(GO)" $(FUZZTIME) $(FUZZJOBS) $(FUZZ)

# As root each replica has a network namespace, else a proxy is between them. make test runs both for
# some seconds. A failure prints its CHAOSSEED.
raft-chaos: check-go
	cd raft-example && $(GO) test $(GOTEST) ./raft-kv -count=1 -v -timeout 0 -run '^TestChaos$$' \
		-chaos.for $(CHAOSTIME) -chaos.seed $(CHAOSSEED)

# It builds the older program from the history of this repository, and is left out without that.
raft-upgrade: check-go
	cd raft-example && $(GO) test $(GOTEST) ./raft-kv -count=1 -v -timeout 0 -run '^TestUpgrade$$' \
		-upgrade.for $(UPGRADETIME)

raft-big: check-go
	cd raft-example && $(GO) test $(GOTEST) ./raft-kv -count=1 -v -timeout 0 -run '^TestBig$$' \
		-big.bytes $(BIGBYTES) -big.members $(BIGMEMBERS)

hraft-suite: check-go
	GO="$(GO)" KINDS="$(KINDS)" scripts/hraft-suite/run $(SUITEFLAGS)

# grpc-go's own tests over grpcerpc. SUITEFLAGS='-run REGEXP', '-net shm', '-loss 0.02',
# '-listed skip', '-diff'. And other software for grpc-go, by the same overlay: SUITES names it.
grpc-suite: check-go
	$(GO) run ./scripts/grpc-suite -go "$(GO)" $(SUITEFLAGS)

SUITES ?= interop conformance middleware grpcurl gateway otelgrpc ghz examples
grpc-suites: check-go
	@status=0; for s in $(SUITES); do echo "[.] $$s"; \
		$(GO) run ./scripts/grpc-suite -go "$(GO)" -suite $$s $(SUITEFLAGS) || status=1; \
	done; exit $$status

# All of them over UDP, with shared memory beside it, and with a lossy network; half an hour.
grpc-suites-all: check-go
	@status=0; for flags in '' '-net shm' '-loss 0.02'; do \
		$(MAKE) grpc-suite grpc-suites SUITEFLAGS="-listed skip $$flags" || status=1; \
	done; exit $$status

# memcached's own tests over erpc-kv. SUITEFLAGS='-run REGEXP -v'.
memcached-suite: check-go
	$(GO) run ./scripts/memcached-suite -go "$(GO)" $(SUITEFLAGS)

# What make test has in short: random operations beside a model, and seeded schedules.
index-oracle: check-go
	$(GO) test ./index -v -count=1 -timeout 0 -run TestOracle -index.steps 10000000
	$(GO) test ./index -v -count=1 -timeout 0 -tags invariants -run TestSchedules -index.seeds 20000

# What make test has in short: programs of random functions, translated and compared, for GOPTTIME
# from the seed FROM on.
GOPTTIME = 5m
gopt-random: check-go
	$(GO) test ./gopt/translate -v -count=1 -timeout 0 -run TestRandom -for $(GOPTTIME) \
		-seed $(or $(FROM),$(shell date +%Y%m%d)) -functions 120

kv-limit: check-go
	$(GO) test ./kv/mica -v -count=1 -timeout 0 -run TestMemoryLimit -mica.limit $(LIMITTIME)

.PHONY: bin/gremlins mutants mutants-security
bin/gremlins: check-go
	@GOBIN="$(CURDIR)/bin" $(GO) install github.com/go-gremlins/gremlins/cmd/gremlins@$(GREMLINS)

# The guards of security, taken away one after the other: a test must notice each.
mutants-security:
	$(GO) run ./scripts/guards

# What has not changed since the last run is not run again, unless FORCE=1.
mutants: bin/gremlins
	$(GO) run ./scripts/mutants -go "$(GO)" -gremlins bin/gremlins -version $(GREMLINS) -min $(MIN) \
		-sample $(SAMPLE) -seed $(SEED) -workers $(WORKERS) $(if $(filter 1,$(FORCE)),-force) $(PKG)

.PHONY: callpath
callpath: check-go
	@$(GO) run ./scripts/callpath

.PHONY: plots licenses release-check release-dry
plots: build bin/erpc-index
	bin/erpc sim incast --degree 20,50 --warmup 5ms --duration 10ms --no-fairness --plot docs/plots/incast.svg
	bin/erpc sim loss --seeds 1 --duration 50ms --plot docs/plots/loss.svg
	bin/erpc sim scale --nodes 10 --threads 1,2,5 --plot docs/plots/scale.svg
	bin/erpc sim rfp --plot docs/plots/rfp.svg
	bin/erpc sim waiting --plot docs/plots/waiting.svg
	bin/erpc-index sim --each 2ms --plot docs/plots/index.svg

licenses: check-go
	$(GO) run ./scripts/thirdparty -out THIRD_PARTY.txt

# Tests the tree as it is: each module alone, each command by its path and version, modules outside
# the tree. scripts/release VERSION makes a release.
.PHONY: rehearsal
rehearsal: check-go
	scripts/rehearsal

# Compiling goreleaser takes minutes the first time.
release-check: check-go
	$(GO) run $(GORELEASER) check

release-dry: check-go
	$(GO) run $(GORELEASER) release --snapshot --clean --skip publish

include labs/Makefile
