# make run     installs what is missing, builds, starts the server; ARGUMENTS="--port 9000" are passed on
# make test    all tests
# make check   all that CI runs: tests in debug and release, and the format
# make fuzz    every fuzz target for SECONDS=60, from where the last run left off

.PHONY: run test test-release soak sanitize fuzz vectors lint format check bench setup

ARGUMENTS ?=
SECONDS ?= 60

run: setup
	swift build -c release --product quittance
	@exec "$$(swift build -c release --show-bin-path)/quittance" serve $(ARGUMENTS)

test: setup
	swift test

# This compiler's optimiser has been seen to break throwing functions that debug builds run well, so the suite runs twice.
test-release: setup
	swift test -c release

# Every other value of every byte of a receipt and a token: some minutes, in release.
soak: setup
	QUITTANCE_SOAK=1 swift test -c release --filter EveryByteTests

# The suite under the address sanitizer, then under the thread sanitizer. Not for leaks: the leak sanitizer does not
# recognise pointers that Swift keeps marked, and takes what globals hold for lost.
sanitize: setup
	ASAN_OPTIONS=detect_leaks=0 swift test --sanitize=address --scratch-path .build-asan
	swift test --sanitize=thread --scratch-path .build-tsan

# What was found lies in Fuzz/Crashes, see docs/fuzzing.md.
fuzz: setup
	scripts/fuzz $(SECONDS)

# The hostile suite anew: other keys and signatures, the same faults.
vectors: setup
	swift run make-vectors Tests/Vectors

SWIFT_SOURCES = Sources Tests Package.swift $(foreach package,Benchmarks Fuzz,$(package)/Sources $(package)/Package.swift)

lint:
	swift format lint --strict --recursive --parallel $(SWIFT_SOURCES)

format:
	swift format --in-place --recursive --parallel $(SWIFT_SOURCES)

check: test test-release lint

# Beside the raw cost of the signatures inside; needs ../shared/data.
bench: setup
	cd Benchmarks && swift run -c release VerificationBenchmark

setup:
	@scripts/setup
