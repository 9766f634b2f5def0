# make run     installs what is missing, builds, starts the server; ARGUMENTS="--port 9000" are passed on
# make test    all tests
# make check   all that CI runs: tests in debug and release, and the format
# make bench   what verification costs beside its signature checks; make limits: the worst that an input can cost

.PHONY: run test test-release soak vectors lint format check bench limits setup

ARGUMENTS ?=
SWIFT_CODE = Sources Tests Benchmarks/Sources Benchmarks/Verification Benchmarks/Package.swift Package.swift

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
	swift format lint --strict --recursive --parallel $(SWIFT_CODE)

format:
	swift format --in-place --recursive --parallel $(SWIFT_CODE)

check: test test-release lint

# Verification beside the raw cost of the signature checks inside, and what must be reached: a table. Receipts need
# ../shared/data.
bench: setup
	cd Benchmarks && swift package --disable-sandbox benchmark --target Verification --format jmh --path .build --no-progress
	cd Benchmarks && swift run -c release RatioTable .build/Current_run.jmh.json

# The worst input of each kind, against 250 ms and 64 MiB. CASE=token runs those whose name has the word.
limits: setup
	cd Benchmarks && swift run -c release Limits "$(CASE)"

setup:
	@scripts/setup
