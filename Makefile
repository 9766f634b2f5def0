# make run     installs what is missing, builds, starts the server; ARGUMENTS="--port 9000" are passed on
# make test    all tests
# make check   all that CI runs: tests in debug and release, and the format

.PHONY: run test test-release soak vectors lint format check bench setup

ARGUMENTS ?=

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

# The hostile suite anew: other keys and signatures, the same faults.
vectors: setup
	swift run make-vectors Tests/Vectors

lint:
	swift format lint --strict --recursive --parallel Sources Tests Benchmarks/Sources Benchmarks/Package.swift Package.swift

format:
	swift format --in-place --recursive --parallel Sources Tests Benchmarks/Sources Benchmarks/Package.swift Package.swift

check: test test-release lint

# Beside the raw cost of the signatures inside; needs ../shared/data.
bench: setup
	cd Benchmarks && swift run -c release VerificationBenchmark

setup:
	@scripts/setup
