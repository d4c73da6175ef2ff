# meshctl: `make demo` shows it working, `make test` checks it. `make help` lists the rest.

# The tags leave out database back ends of smallstep that are never used (6 MB
# and a library that adds global flags). -trimpath makes builds reproducible,
# and one set of flags everywhere keeps one build cache.
TAGS := nobadger,nobbolt,nomysql,nopgx
export GOFLAGS := -trimpath -tags=$(TAGS)
export CGO_ENABLED := 0

BIN    := bin/meshctl
CC     ?= cc
HAVECC := $(shell command -v $(CC) 2>/dev/null || command -v gcc 2>/dev/null)
TOOL   := go tool -modfile=tools.mod
FUZZTIME ?= 20s

.PHONY: help build image demo test nightly e2e-faults e2e-restore e2e-clients e2e-kube lint fix fuzz bench docs licenses generate vuln clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/meshctl
	go build -ldflags='-s -w' -o $(BIN) .

# For other machines: skopeo copy --all oci:bin/image/oci docker://REGISTRY/meshctl:TAG,
# or docker load -i bin/image/meshctl-amd64.tar.
IMAGE ?= meshctl:dev
image: ## build the container image of IMAGE (default meshctl:dev) into bin/image, without Docker
	go run ./internal/image -tag $(IMAGE)

demo: build ## build, then run a whole mesh on this machine through its main job
	$(BIN) dev up --demo

# The race detector needs a C compiler; everything else does not. Packages whose
# tests run whole clusters come after the others, one at a time, and those of many
# processes last, so that none of them takes another's time.
CLUSTERS := cmd internal/linear pkg/mgmt pkg/store/embedded
APART    := $(CLUSTERS) internal/e2e
PARTS    := $$(go list ./... | grep -vxF $(foreach p,$(APART),-e github.com/meshctl/meshctl/$(p)))

# Elections, leases and deadlines of real servers depend on how busy the machine is:
# up to two tests that failed run once more, alone, and the end of the output names
# them. Nothing runs again after a data race or a panic. A test that needed it is a bug.
GOTESTSUM = $(TOOL) gotestsum --format=standard-quiet --rerun-fails=1 --rerun-fails-max-failures=2 --rerun-fails-abort-on-data-race
TEST     := -count=1 -timeout=30m -shuffle=on
ifneq ($(HAVECC),)
test: export CGO_ENABLED := 1
TEST += -race
endif
test: ## every test, with the race detector where a C compiler is there
	@$(if $(HAVECC),,echo "make test: no C compiler, so the race detector is off; install one (gcc) to have it")
	$(GOTESTSUM) --packages="$(PARTS)" -- $(TEST) -p=2
	$(GOTESTSUM) --packages="$(addprefix ./,$(CLUSTERS))" -- $(TEST) -p=1
	$(GOTESTSUM) --packages=./internal/e2e -- $(TEST)

nightly: ## the long tests: ten minutes of history and of renewals, 20 failovers, 10,000 clients while entries roll, fuzzing, faults
	MESHCTL_LINEAR=10m MESHCTL_FAILOVERS=20 go test -count=1 -timeout 40m -v ./internal/linear
	MESHCTL_RENEWAL=12m go test -count=1 -timeout 20m -v -run TestRenewalUnderLoad ./internal/e2e
	MESHCTL_ROLLING=10000 go test -count=1 -timeout 20m -v -run TestRollingEntriesLosesNobody ./internal/e2e
	$(MAKE) fuzz FUZZTIME=2m
	$(MAKE) e2e-restore
	$(MAKE) e2e-clients
	$(MAKE) e2e-faults
	$(MAKE) e2e-kube

# Needs root, iproute2 and nftables, and says which of them is missing.
e2e-faults: ## break a mesh in network namespaces, and write what was measured to docs/reliability.md
	MESHCTL_FAULTS_TABLE=$(CURDIR)/docs/reliability.md go test -tags=faults,$(TAGS) -count=1 -timeout 30m -v ./internal/faults

# Builds Xray and sing-box into the user's cache; installs v2ray, curl, chromium and
# libnss3-tools, when it runs as root, and otherwise says which of them is missing.
e2e-clients: ## connect with the clients that members have, and write what passed to docs/clients.md
	MESHCTL_CLIENTS_TABLE=$(CURDIR)/docs/clients.md go test -tags=clients,$(TAGS) -count=1 -timeout 30m -v ./internal/clients

# Builds Kubernetes into the user's cache, once; needs root and control groups of
# version 1; installs containerd, runc, containernetworking-plugins, nftables,
# iproute2 and conntrack.
e2e-kube: ## run the entry layer on a real Kubernetes, and write what was measured to docs/kubernetes-tests.md
	MESHCTL_KUBE_TABLE=$(CURDIR)/docs/kubernetes-tests.md go test -tags=kube,$(TAGS) -count=1 -timeout 90m -v ./internal/kube

e2e-restore: ## burn a mesh of 10,000 devices and 200 cores, and bring it back from its backup
	MESHCTL_RESTORE=big go test -count=1 -timeout 30m -v -run 'BurnsAndComesBack$$' ./internal/e2e

lint: ## gofmt, vet, go fix, staticcheck, tidy modules, current documents and licences
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'make lint: gofmt these files, or: make fix'; exit 1; }
	go vet ./...
	go vet -tags=faults,$(TAGS) ./internal/faults
	go vet -tags=clients,$(TAGS) ./internal/clients
	go vet -tags=kube,$(TAGS) ./internal/kube
	@test -z "$$(go fix -diff ./... 2>&1)" || { go fix -diff ./...; echo 'make lint: or: make fix'; exit 1; }
	@test -z "$$(go fix -diff -tags=faults,$(TAGS) ./internal/faults 2>&1)" || { go fix -diff -tags=faults,$(TAGS) ./internal/faults; exit 1; }
	@test -z "$$(go fix -diff -tags=clients,$(TAGS) ./internal/clients 2>&1)" || { go fix -diff -tags=clients,$(TAGS) ./internal/clients; exit 1; }
	@test -z "$$(go fix -diff -tags=kube,$(TAGS) ./internal/kube 2>&1)" || { go fix -diff -tags=kube,$(TAGS) ./internal/kube; exit 1; }
	$(TOOL) staticcheck ./...
	$(TOOL) staticcheck -tags=faults,$(TAGS) ./internal/faults
	$(TOOL) staticcheck -tags=clients,$(TAGS) ./internal/clients
	$(TOOL) staticcheck -tags=kube,$(TAGS) ./internal/kube
	go mod tidy -diff
	go run . docs --check docs/cli
	go run ./internal/licenses -check docs/third-party-licenses.md

fix: ## repair what lint can repair
	gofmt -w .
	go fix ./...
	go mod tidy
	$(MAKE) docs

# Go before 1.27 may end a run that found nothing as a failure when its time is
# over (go.dev/issue/75804); a failure that counts writes its input.
fuzz: ## run each fuzz target for FUZZTIME (default 20s)
	@for pkg in $$(go list ./...); do \
	  for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$f"; \
	    out=$$(go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 50x $$pkg 2>&1) && { echo "$$out" | tail -1; continue; }; \
	    echo "$$out"; \
	    echo "$$out" | grep -qx '    context deadline exceeded' && ! echo "$$out" | grep -q 'Failing input written' || exit 1; \
	  done; done

bench: build ## benchmarks of the parts, then the whole path beside a peer
	go test -run '^$$' -bench . -benchmem -p 1 ./pkg/...
	bench/run.sh $(BIN)

docs: ## generate the CLI reference
	go run . docs docs/cli

licenses: ## list the licences of what is linked, and refuse what may not be
	go run ./internal/licenses docs/third-party-licenses.md

generate: ## generate the protobuf code (needs protoc, Debian package protobuf-compiler)
	mkdir -p bin
	go build -modfile=tools.mod -o bin/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
	cd pkg/control/controlpb && PATH="$(CURDIR)/bin:$$PATH" protoc --go_out=. --go_opt=paths=source_relative \
	  --go-grpc_out=. --go-grpc_opt=paths=source_relative control.proto cluster.proto chores.proto

vuln: ## known vulnerabilities in what is linked (needs vuln.go.dev)
	$(TOOL) govulncheck ./...

clean: ## remove what build makes
	rm -rf bin
