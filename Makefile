# Everything there is to do here; `make` alone lists it.
.DEFAULT_GOAL := help
.PHONY: help run phones build test lint format bench chaos fuzz verify clean

# The Swift runtime goes into the binary: it runs where no Swift is installed, and calls into it are cheaper.
RELEASE := swift build --traits Gateway -c release --static-swift-stdlib
SWIFT_FOLDERS := Package.swift Sources Tests Benchmarks Fuzz Examples

help: ## this list
	@sed -nE 's/^([a-z]+):.* ## (.*)/make \1\t\2/p' Makefile | expand -t 14

run: ## the gateway with a private database, to try it; UPSTREAM=demo adds a REST API; PORT=9080 OPERATIONS_PORT=9081
	$(if $(filter-out demo,$(UPSTREAM)),$(error UPSTREAM is '$(UPSTREAM)'; it can be 'demo', or left out))
	@scripts/bootstrap
	$(RELEASE) --product sluice
	@exec .build/release/sluice dev $(if $(UPSTREAM),--demo-upstream) $(if $(PORT),--port $(PORT)) \
		$(if $(OPERATIONS_PORT),--operations-port $(OPERATIONS_PORT))

phones: ## two phones with a gateway: what they write offline, and what becomes of it; LIVE=1 lets you play them
	@scripts/bootstrap --phones
	$(RELEASE) --product sluice
	swift build --package-path Examples/FieldNotes --scratch-path .build-examples
	@exec scripts/phones $(if $(LIVE),--live)

build: ## the release binary, .build/release/sluice
	@scripts/bootstrap
	$(RELEASE) --product sluice

test: ## all tests, on a real Postgres that they start themselves; PART=gateway runs a part (scripts/test --help)
	@scripts/bootstrap --tests
	@scripts/test $(PART)

lint: ## strict formatting, imports of targets and of console modules, comparisons of text, links and names in the docs
	swift format lint --strict --parallel --recursive $(SWIFT_FOLDERS)
	@scripts/lint-imports --self-test
	@scripts/lint-imports
	@scripts/lint-text --self-test
	@scripts/lint-text
	@scripts/lint-console --self-test
	@scripts/lint-console
	@scripts/check-docs --self-test
	@scripts/test --self-test
	@scripts/check-docs

format: ## brings all Swift files into shape
	swift format --in-place --parallel --recursive $(SWIFT_FOLDERS)

bench: ## what it can do on this machine; PEERS=1 measures what others would have taken instead, too
	@scripts/bootstrap --bench $(if $(PEERS),--peers)
	@scripts/bench $(if $(PEERS),--peers)

chaos: ## kills, stops and misleads gateways under load, and proves that nothing was lost or done twice; PHONES=1: phones
	@scripts/bootstrap $(if $(PHONES),--phones,--bench)
	@scripts/chaos$(if $(PHONES),-phones)

fuzz: ## feeds the parsers what libFuzzer makes up, a minute each, and tells crashes and wrong answers
	@scripts/bootstrap
	@scripts/fuzz

verify: lint test ## lint and test: what must hold before a commit

clean: ## removes what was built
	swift package clean
	rm -rf .build-benchmarks .build-examples
