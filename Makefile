# make run     installs what is missing, builds, and starts the server with Examples/quittance.json; or ARGUMENTS="--port 9000"
# make demo    starts an App Store simulator and a server beside it, a day in a second
# make test    runs the tests in debug, but for those that take long without optimisation
# make tidy    checks within a minute what no compiler checks about sources and pages
# make check   runs all that CI runs: the format, the tidy rules, tests in debug and release, documentation, the consumer
# make dist    packs the program with Swift's runtime, its licences, manual and completions into dist/
# make package also makes a Debian package, and tests it and the container image in a minimal Debian: as root
# make docs    writes the documentation of the libraries to .build/docs
# make openapi writes docs/openapi.json, and what follows from it in docs/api.md and llms.txt
# make bench   measures verification relative to its signature checks, and the server under load
# make instructions counts what requests take, beside the kept numbers
# make felt    measures what a user feels: the times of requests and starts, memory, and bytes on the disk
# make limits  measures the worst inputs against the bounds
# make fuzz    runs each fuzz target for SECONDS=60, from where the last run ended

.PHONY: run demo tidy test test-release simulation load soak rulebook kill trust sanitize fuzz vectors signing-fixture lint format consumer dist package docs openapi check bench instructions felt limits clean-cache setup setup-tests

ARGUMENTS ?= --config Examples/quittance.json
SECONDS ?= 60
SEED ?= 1
TRANSACTIONS ?= 5000000
DAYS ?= 365
CUSTOMERS ?= 12

# With the hashing of `swift_build` in scripts/builds, which says why.
BUILD = SWIFT_DETERMINISTIC_HASHING=1 swift build -c release --product

# To the program, a variable whose name begins with QUITTANCE_ is a setting.
RUN = env -u QUITTANCE_BUILD_CACHE "$$(swift build -c release --show-bin-path)"

run: setup
	$(BUILD) quittance
	@exec $(RUN)/quittance serve $(ARGUMENTS)

# DEMO="--port 8090 --control-port 9100" chooses other ports: quittance demo -h lists the options.
demo: setup
	$(BUILD) quittance
	@exec $(RUN)/quittance demo $(DEMO)

# Needs no package of others, so that it says within a minute what it finds.
tidy: setup
	scripts/test --package-path Tests --scratch-path .build-tidy

test: setup-tests
	scripts/test

# All tests. The optimiser of this compiler has broken throwing functions that debug builds run well. Therefore most tests
# run twice.
test-release: setup-tests
	scripts/test -c release

# Every other value of every byte of a receipt and a token, and 1,000 signed histories in many orders: some minutes in
# release.
soak: setup-tests
	QUITTANCE_SOAK=1 scripts/test -c release --filter 'EveryByteTests|SignedOrderTests|PaymentYearTests|AnswerYearTests|DamagedLogTests|TimeLineTests'

# A simulated year of customers, lost deliveries, stopped storage and an App Store out of reach: some minutes in release.
# SEED=7 DAYS=365 CUSTOMERS=12 choose another.
simulation: setup
	$(BUILD) simulate-check
	"$$(swift build -c release --show-bin-path)/simulate-check" --seed $(SEED) --days $(DAYS) --customers $(CUSTOMERS)

# Two virtual hours with ten customers a second, to see whether work piles up.
load: setup
	$(BUILD) simulate-check
	"$$(swift build -c release --show-bin-path)/simulate-check" --load --seed $(SEED)

# Compares the ledger with the rule book in Tests/RuleBook: 2,000 customers, and 400 apps with backends; or SEED=7.
# Needs python3.
rulebook: setup-tests
	QUITTANCE_SOAK=1 QUITTANCE_SEED=$(SEED) scripts/test --filter RuleBookTests

# Kills a server 200 times under load, and ten times as often as the suite while customers of a simulator live: some
# minutes in release.
kill: setup-tests
	QUITTANCE_SOAK=1 scripts/test -c release --filter 'KillTests|KilledSimulationTests'

# Ten long runs each of three servers on one PostgreSQL while they are killed, PostgreSQL crashes or fails over, connections
# are cut or PgBouncer is killed: half an hour in release. Then ten simulations of two months on three servers, and a
# minute of three servers behind a locked table.
trust: setup-tests
	QUITTANCE_SOAK=1 scripts/test -c release --filter 'ThreeServersTests|PostgresSimulationTests|SessionTests'

# Runs the suite under the address sanitizer, then under the thread sanitizer. The leak sanitizer is off: it does not
# recognise pointers in which Swift sets bits, and reports what globals hold as lost.
sanitize: setup-tests
	ASAN_OPTIONS=detect_leaks=0 scripts/test --sanitize=address --scratch-path .build-asan
	TSAN_OPTIONS=suppressions=$(CURDIR)/scripts/thread-sanitizer.supp scripts/test --sanitize=thread --scratch-path .build-tsan

# Findings are in Fuzz/Crashes, see Fuzz/README.md.
fuzz: setup
	scripts/fuzz $(SECONDS)

# Makes the hostile suite anew: other keys and signatures, the same faults.
vectors: setup
	swift run make-vectors Tests/Vectors

# Replaces the keys and certificates of seeded simulators. All documents of all seeds change.
signing-fixture: setup
	swift run make-signing-fixture > .build/SigningFixture.swift
	mv .build/SigningFixture.swift Sources/AppStoreSimulator/Signing/SigningFixture.swift

SWIFT_SOURCES = Sources Tests Examples Package.swift Benchmarks/Verification $(foreach package,Benchmarks Fuzz,$(package)/Sources $(package)/Package.swift)

lint:
	swift format lint --strict --recursive --parallel $(SWIFT_SOURCES)

format:
	swift format --in-place --recursive --parallel $(SWIFT_SOURCES)

# Builds Examples/VerifyOnly, and checks that it downloads what verification needs and nothing else.
consumer: setup
	scripts/consumer

# The release build with Swift's runtime takes some ten minutes and two gigabytes in .build-dist. Needs python3.
dist: setup
	scripts/dist

# Needs root, and the packages debhelper, lintian, debootstrap and buildah. The first run downloads a minimal Debian.
package: dist
	scripts/package
	scripts/test-archive README.md "Try it" docs/install.md "The archive"
	scripts/test-package

docs: setup
	scripts/docs

# The routes are values of the program, so tests make the papers: the document, then examples by it, then the rest.
openapi: setup-tests
	WRITE_PAPERS=1 scripts/test --filter OpenAPITests
	WRITE_PAPERS=1 scripts/test --skip-build --filter 'SimulatorClientTests.*example'
	WRITE_PAPERS=1 scripts/test --skip-build --filter OpenAPITests

check: lint tidy test test-release docs consumer

# Measures verification relative to the raw cost of its signature checks, and prints a table of what is required. Receipts
# need ../shared/data. Then measures the server on this machine: notification intake relative to verification alone, and
# entitlement reads with 5 million stored transactions relative to /health/live. The first run fills that ledger, which
# takes ten minutes and 2 GB in Benchmarks/.build; TRANSACTIONS=500000 uses fewer. Then it measures the server with three
# webhooks relative to the server without, and the ledger in PostgreSQL relative to pgbench, on a server of its own. Last it
# measures quittance verify with 100,000 lines relative to the library, and counts instructions as below.
bench: setup
	@grep -m 1 'model name' /proc/cpuinfo || true
	cd Benchmarks && swift package --disable-sandbox benchmark --target Verification --format jmh --path .build --no-progress
	cd Benchmarks && swift run -c release RatioTable .build/Current_run.jmh.json
	cd Benchmarks && swift run -c release ServerLoad $(TRANSACTIONS)
	cd Benchmarks && swift run -c release ServerLoad webhooks
	cd Benchmarks && swift run -c release WorldLoad
	cd Benchmarks && swift run -c release PostgresLoad $(TRANSACTIONS)
	$(BUILD) quittance
	cd Benchmarks && swift run -c release ManyLines "$$(cd .. && swift build -c release --show-bin-path)/quittance"
	$(MAKE) instructions

# Counts the instructions and allocations of requests, beside the numbers in Benchmarks/Instructions/kept.json. KEEP=--keep
# writes them there. Needs python3, valgrind and cc, and some minutes; without valgrind it says so and counts nothing.
instructions: setup
	$(BUILD) quittance
	python3 Benchmarks/Instructions/instructions.py "$$(swift build -c release --show-bin-path)/quittance" $(KEEP)

# Measures the times of notifications, reads and starts, the memory, an idle minute and the bytes of a year, on a machine that
# does nothing else: some ten minutes. Needs Linux and python3.
felt: setup
	$(BUILD) quittance
	python3 Benchmarks/Felt/felt.py "$$(swift build -c release --show-bin-path)/quittance"

# Measures the worst input of each kind against 250 ms and 64 MiB. CASE=token runs those with that word in their names.
limits: setup
	cd Benchmarks && swift run -c release Limits "$(CASE)"

# Empties the folder that QUITTANCE_BUILD_CACHE names, see scripts/builds. Let no build run there meanwhile.
clean-cache:
	@bash -euc '. scripts/builds; : "$${QUITTANCE_BUILD_CACHE:?is not set}"; make_cache; rm -rf "$$QUITTANCE_BUILD_CACHE"/*-*'

setup:
	@scripts/setup

# Also installs PostgreSQL's server, which only tests need.
setup-tests:
	@scripts/setup tests
