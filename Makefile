# The tasks of this repository; `make` lists them.
.DEFAULT_GOAL := help
.PHONY: help run phones build test sql lint format bench chaos fuzz release verify clean

# The Swift runtime is linked statically, so that the binary runs without Swift and calls into it are cheaper.
RELEASE := swift build --traits Gateway -c release --static-swift-stdlib
SWIFT_FOLDERS := Package.swift Sources Tests Benchmarks Fuzz Examples

help: ## list the tasks
	@sed -nE 's/^([a-z]+):.* ## (.*)/make \1\t\2/p' Makefile | expand -t 14

run: ## start a gateway with a private database; UPSTREAM=demo adds a REST API; PORT=9080 OPERATIONS_PORT=9081
	$(if $(filter-out demo,$(UPSTREAM)),$(error UPSTREAM is '$(UPSTREAM)'; use 'demo' or omit it))
	@scripts/bootstrap
	$(RELEASE) --product sluice
	$(if $(UPSTREAM),$(RELEASE) --product sluice-demo-upstream)
	@exec .build/release/sluice dev $(if $(UPSTREAM),--demo-upstream) $(if $(PORT),--port $(PORT)) \
		$(if $(OPERATIONS_PORT),--operations-port $(OPERATIONS_PORT))

phones: ## show phones that write offline, conflict and converge; LIVE=1 lets you control them
	@scripts/bootstrap --phones
	@exec scripts/phones --build $(if $(LIVE),--live)

build: ## build the release binary, .build/release/sluice
	@scripts/bootstrap
	$(RELEASE) --product sluice

test: ## run all tests, on a PostgreSQL server that they start; PART=quick runs the quick ones (scripts/test --help)
	@scripts/bootstrap --tests
	@scripts/test $(PART)

sql: ## write docs/sql, the text of every SQL statement
	SLUICE_WRITE_SQL=1 swift test --traits Gateway --filter StatementDocumentTests

lint: ## check format, imports, console modules, SQL, migrations, text comparison, links of the documentation, and wording
	swift format lint --strict --parallel --recursive $(SWIFT_FOLDERS)
	@scripts/lint-imports --self-test
	@scripts/lint-imports
	@scripts/lint-text --self-test
	@scripts/lint-text
	@scripts/lint-sql --self-test
	@scripts/lint-sql
	@scripts/lint-migrations --self-test
	@scripts/lint-migrations
	@scripts/lint-console --self-test
	@scripts/lint-console
	@scripts/check-docs --self-test
	@scripts/test --self-test
	@scripts/check-docs
	@scripts/lint-prose --self-test
	@scripts/lint-prose
	@scripts/lint-glossary --self-test
	@scripts/lint-glossary
	@scripts/update-packages --check

format: ## format all Swift files
	swift format --in-place --parallel --recursive $(SWIFT_FOLDERS)

bench: ## measure the gateway on this machine; PEERS=1 also measures alternatives
	@scripts/bootstrap --bench $(if $(PEERS),--peers)
	@scripts/bench $(if $(PEERS),--peers)

chaos: ## inject faults under load and check that nothing is lost or applied twice; PHONES=1 tests the client library
	@scripts/bootstrap $(if $(PHONES),--phones,--bench)
	@scripts/chaos$(if $(PHONES),-phones)

fuzz: ## fuzz the parsers with libFuzzer, one minute each, and report crashes and wrong results
	@scripts/bootstrap
	@scripts/fuzz

release: ## build tarball, Debian package, checksums, SBOM and release notes into dist/ (scripts/release --help)
	@scripts/release

verify: lint test ## run lint and test, as required before each commit

clean: ## remove build output
	swift package clean
	rm -rf .build-benchmarks .build-examples .build-release .build-static .build-chart dist
