# make run     installs what is missing, builds, starts the server with the example's configuration; or ARGUMENTS="--port 9000"
# make test    all tests
# make check   all that CI runs: tests in debug and release, and the format
# make bench   what verification costs beside its signature checks, and the server under load; make limits: the worst that an input can cost
# make fuzz    every fuzz target for SECONDS=60, from where the last run left off

.PHONY: run test test-release soak rulebook kill sanitize fuzz vectors lint format check bench limits setup

ARGUMENTS ?= --config Examples/quittance.json
SECONDS ?= 60
SEED ?= 1
TRANSACTIONS ?= 5000000

run: setup
	swift build -c release --product quittance
	@exec "$$(swift build -c release --show-bin-path)/quittance" serve $(ARGUMENTS)

test: setup
	swift test

# This compiler's optimiser has been seen to break throwing functions that debug builds run well, so the suite runs twice.
test-release: setup
	swift test -c release

# Every other value of every byte of a receipt and a token, and 1,000 signed histories in many orders: some minutes, in
# release.
soak: setup
	QUITTANCE_SOAK=1 swift test -c release --filter 'EveryByteTests|SignedOrderTests'

# The ledger beside the rule book in Tests/RuleBook: 2,000 customers, 90,000 deliveries; or SEED=7. Needs python3.
rulebook: setup
	QUITTANCE_SOAK=1 QUITTANCE_SEED=$(SEED) swift test --filter RuleBookTests

# A server that is killed 200 times under load: some minutes, in release.
kill: setup
	QUITTANCE_SOAK=1 swift test -c release --filter KillTests

# The suite under the address sanitizer, then under the thread sanitizer. Not for leaks: the leak sanitizer does not
# recognise pointers that Swift keeps marked, and takes what globals hold for lost.
sanitize: setup
	ASAN_OPTIONS=detect_leaks=0 swift test --sanitize=address --scratch-path .build-asan
	TSAN_OPTIONS=suppressions=$(CURDIR)/scripts/thread-sanitizer.supp swift test --sanitize=thread --scratch-path .build-tsan

# What was found lies in Fuzz/Crashes, see docs/fuzzing.md.
fuzz: setup
	scripts/fuzz $(SECONDS)

# The hostile suite anew: other keys and signatures, the same faults.
vectors: setup
	swift run make-vectors Tests/Vectors

SWIFT_SOURCES = Sources Tests Package.swift Benchmarks/Verification $(foreach package,Benchmarks Fuzz,$(package)/Sources $(package)/Package.swift)

lint:
	swift format lint --strict --recursive --parallel $(SWIFT_SOURCES)

format:
	swift format --in-place --recursive --parallel $(SWIFT_SOURCES)

check: test test-release lint

# Verification beside the raw cost of the signature checks inside, and what must be reached: a table. Receipts need
# ../shared/data. Then the server on this machine: notifications that it takes in beside what is verified without HTTP and
# storage, and entitlement reads, with 5 million transactions stored, beside /health/live. Filling that ledger takes ten
# minutes and 2 GB in Benchmarks/.build at first; TRANSACTIONS=500000 is content with fewer.
bench: setup
	cd Benchmarks && swift package --disable-sandbox benchmark --target Verification --format jmh --path .build --no-progress
	cd Benchmarks && swift run -c release RatioTable .build/Current_run.jmh.json
	cd Benchmarks && swift run -c release ServerLoad $(TRANSACTIONS)

# The worst input of each kind, against 250 ms and 64 MiB. CASE=token runs those whose name has the word.
limits: setup
	cd Benchmarks && swift run -c release Limits "$(CASE)"

setup:
	@scripts/setup
