# make build      a virtual environment in .venv, the compiled core, all extras
# make demo       build pyhudi and run the demo: PySpark upserts into a table that Apache Hudi wrote
# make test       the test suite
# make check      what CI runs: format, ruff, mypy --strict, benches at smoke size, tests
# make long       long proofs in pieces of ten minutes, the oldest first (PART=next, PART=fuzz, MINUTES=60, SEED=N);
#                 tests/evidence.json has what the last run of each gave; SHOW=1 prints it
# make bench      the benches at full size; those of `make figures` go to bench/RESULTS.md
# make figures    the figures of bench/RESULTS.md in one run of 25 minutes (MINUTES=25)
# make example-dbt  the project of dbt in examples/dbt, with dbt in build/dbt
# make docs       the documentation site, in build/site; dead links and missing names fail
# make wheel      the wheel, in dist/
# make clean      remove what was built
#
# Whole long forms:
# make long-azure           stores and a table on Azurite, fetched the first time
# make long-browser         pages of reports in headless Chromium (Debian's package chromium)
# make long-catalogs        entries and locks in a real Hive Metastore 3.1 and 4.0, fetched the first time
# make long-chaos           processes write and run services while they are killed; Apache Hudi reads what they left
# make long-engines         tables found in a Hive Metastore and read by Trino, Hive, Flink and Spark SQL
# make long-engines-local   DuckDB, polars, DataFusion, Daft, Dask and Ray query four million rows, JDBC a server
# make long-failing-disk    an error at each call of the disk, and power lost after each
# make long-failing-store   a wrong answer to each request of an object store
# make long-faults          faults planted among 2 M keys of a record index: exactly they are found and repaired
# make long-filters         20,000 random filters against an evaluation of each row and DuckDB; bounds of sqlglot
# make long-fuzz            damage in every byte of the sample files, and 20,000 changed files a format
# make long-hbase           the HBase index on a real HBase, in turns with Apache Hudi's; fetched the first time
# make long-hdfs            stores, locks and a table's life on a real HDFS, fetched the first time
# make long-history         many writers and services, and a checker of what they leave
# make long-hudi-rs         hudi-rs 0.6, built by cargo, and pyhudi write and read the same tables in turns
# make long-ingest-kills    an ingest is killed 100 times on each engine (PYHUDI_KAFKA=host:port)
# make long-interop         pyhudi and Apache Hudi take turns, more seeds
# make long-kafka           a running Kafka and schema registry as sources (PYHUDI_KAFKA, PYHUDI_SCHEMA_REGISTRY)
# make long-kills           a stream is killed at 50 random points
# make long-model           every order of steps of three writers and the services, with put-if-absent and without
# make long-mutants         seeded bugs, each of which a test must catch
# make long-newcomer       the first hour on Spark, on a laptop and on S3: the wheel in an empty folder, then the pages
# make long-outsiders       all tables of hudi-rs, in PYHUDI_HUDI_RS_TABLES, and the rows its tests state
# make long-postgres        queries and changes of a real PostgreSQL as sources, if it is installed
# make long-properties      random operations on random tables, against a dict, for 10 minutes; reads by Spark
# make long-pythons         the wheel on CPython 3.12 to 3.14, fetched the first time, without extras; tests of the core
# make long-sanitize        the native core with AddressSanitizer and UBSan, under the fuzz program
# make long-simulate        actors, faults and a virtual clock under fresh seeds (MINUTES=10)
# make long-spark-stores    tables on HDFS and S3, written and read by Spark; jars are fetched the first time
# make long-spark-versions  tests/spark with PySpark 3.5, 4.0 and the newest 4.x, in environments of their own
# make long-test-version-6  the tests without Java; tables of tests that name no version have version 6
# make long-test-version-8  the same with version 8
# make long-torn            every file of a table cut, zero-filled or lost, then read and repaired
# make long-zookeeper       the locks of Apache Hudi on a real ZooKeeper

LONG := azure browser catalogs chaos engines engines-local failing-disk failing-store faults filters fuzz \
  hbase hdfs history hudi-rs ingest-kills interop kafka kills model mutants newcomer outsiders \
  postgres properties pythons sanitize simulate spark-stores spark-versions test-version-6 test-version-8 torn zookeeper

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -p no:xdist

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

# Tests and benches start hundreds of processes; without stored bytecode each compiles the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help build demo test test-interop test-spark test-plain collected check check-types-and-benches long bench figures example-dbt docs wheel clean $(LONG)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pyhudi needs Python 3.11 or newer; set PYTHON=python3.x")'
	@command -v $${CC:-cc} >/dev/null || { echo "pyhudi needs a C compiler: install gcc or clang (or set CC)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade pip

# The core compiles while pip installs. Libraries get their bytecode at the first import: most modules never.
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile
define installed
$(PIP) 'setuptools>=77' 'cython>=3.1' 'numpy>=2.0'
mkdir -p build; $(BIN)/python setup.py -q build_ext --inplace > build/core.log 2>&1 & core=$$!; \
PYHUDI_WITHOUT_CORE=1 $(PIP) --no-build-isolation -e '.[$(EXTRAS)]' && \
{ wait $$core || { cat build/core.log; exit 1; }; }
endef

# The stamps follow what decides about the installed packages and the compiled core.
PARTS_OF_BUILD := pyproject.toml setup.py $(wildcard $(addprefix pyhudi/_native/,*.pyx *.pxd *.h */*.pyx */*.pxd))

$(VENV)/.built: EXTRAS := cli,dev,spark
$(VENV)/.built: $(PARTS_OF_BUILD) | $(BIN)/python
	$(installed)
	@touch $@ $(VENV)/.demo

build: $(VENV)/.built

# The demo needs less than the tests.
$(VENV)/.demo: EXTRAS := cli,spark
$(VENV)/.demo: $(PARTS_OF_BUILD) | $(BIN)/python
	$(installed)
	@touch $@

demo: $(VENV)/.demo
	rm -rf build/demo
	$(BIN)/pyhudi demo --keep build/demo
	$(BIN)/python -m tests.interop.apache_hudi.compare build/demo

# The parts run in parallel; one that needs a JVM has a single process, so the others give way to it.
# The last lines are of all: what did not run and why.
PARTS := interop spark plain
test: build
	@rm -f $(PARTS:%=build/tests/%.json); status=0; \
	$(MAKE) -k -j4 --output-sync=target test-interop test-spark test-plain $(BESIDE) || status=1; \
	$(BIN)/python -m tests.support.not_run $(PARTS:%=build/tests/%.json) || status=1; \
	exit $$status

# The folder of tests with a mark, and the files elsewhere that have it: collecting all costs more.
marked = tests/$(1) $(shell grep -rl --include='test_*.py' --exclude-dir=$(1) 'mark\.$(1)\b' tests | sort)

# One process of each Apache Hudi serves all tests that need it, and one session all of Spark.
test-interop: build
	PYHUDI_TEST_SUMMARY=$(CURDIR)/build/tests/interop.json \
	$(PYTEST) --durations=15 -m 'not slow and interop' $(call marked,interop)

test-spark: build
	PYHUDI_TEST_SUMMARY=$(CURDIR)/build/tests/spark.json \
	$(PYTEST) --durations=15 -m 'not slow and spark and not interop' $(call marked,spark)

# One process writes the bytecode of the tests, rewritten by pytest; else each of the next three would.
PLAIN := --ignore=tests/spark -m 'not slow and not interop and not spark'
collected: build
	@nice -n 5 $(PYTEST) --collect-only -q $(PLAIN) > build/collected.log || { tail -n 40 build/collected.log; exit 1; }

# Three processes, because tests wait for leases and brokers.
test-plain: build collected
	PYHUDI_TEST_SUMMARY=$(CURDIR)/build/tests/plain.json \
	nice -n 5 $(BIN)/python -m pytest -n 3 --dist loadscope --durations=15 $(PLAIN)

# Seeds that no earlier commit had; the same commit has the same ones.
FRESH = $$(( 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1) ))
check: build
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) test BESIDE=check-types-and-benches

check-types-and-benches: build
	nice -n 5 $(BIN)/mypy
	nice -n 5 $(BIN)/python -m bench --smoke
	nice -n 5 $(BIN)/python -m tests.simulation --seconds 60 --stop --first $(FRESH)

long: build
	$(BIN)/python -m tests.ledger $${PART:+--part "$$PART"} $${MINUTES:+--minutes $$MINUTES} \
	  $${SEED:+--seed $$SEED} $${SHOW:+--show}

bench: build
	$(BIN)/python -m bench

# In its own environment, because dbt bounds the versions of many libraries.
example-dbt: build
	$(PYTHON) -m venv build/dbt
	build/dbt/bin/pip install -q '.[duckdb]' 'dbt-core>=1.9,<1.11' 'dbt-duckdb>=1.9'
	build/dbt/bin/python examples/dbt/check.py

figures: build
	$(BIN)/python -m bench.figures --minutes $${MINUTES:-25}

docs: build
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

wheel: build
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf $(VENV) build dist *.egg-info pyhudi/_native/*.so pyhudi/_native/*/*.so

# The long forms: a variable each.  They have their short names too.
$(LONG): %: long-%

long-%: build
	$(if $($@),,$(error no such long form: $*))$($@)

long-spark-version-%: build
	$(PYTHON) -m venv build/pyspark/$*
	build/pyspark/$*/bin/python -m pip install -q --upgrade pip 'setuptools>=77' 'cython>=3.1' 'numpy>=2.0'
	build/pyspark/$*/bin/python -m pip install -q --no-build-isolation -e '.[cli,dev,spark]' \
	'pyspark[connect]==$*.*' $(if $(filter 3.%,$*),'pandas>=2.2,<3')
	build/pyspark/$*/bin/python -m pip install -q --no-deps --upgrade 'pyspark==$*.*'
	build/pyspark/$*/bin/python -m tests.support.pyspark_release
	PYHUDI_TEST_SUMMARY=$(CURDIR)/build/tests/spark-$*.json \
	build/pyspark/$*/bin/python -m pytest -p no:xdist -m 'spark and not slow' tests/spark
	build/pyspark/$*/bin/python -m tests.support.not_run build/tests/spark-$*.json

define long-azure
$(BIN)/python -m tests.support.azure --fetch
$(PYTEST) -m azure tests
endef

long-browser = $(PYTEST) -m browser tests/report

long-catalogs = $(PYTEST) -m catalogs tests/sync tests/contracts

define long-chaos
rm -rf build/chaos
$(BIN)/python -m tests.history --chaos --seed $${SEED:-0} --minutes 10 --writers 8 --keep build/chaos
$(BIN)/python -m tests.interop.same_rows build/chaos/t
endef

define long-engines
$(BIN)/python -m pip install -q trino impyla
$(PYTEST) -m engines tests/sync
endef

# An environment apart: Daft may need an older pyarrow than the tests.
define long-engines-local
$(PYTHON) -m venv build/engines
build/engines/bin/python -m pip install -q 'setuptools>=77' 'cython>=3.1' 'numpy>=2.0'
build/engines/bin/python -m pip install -q --no-build-isolation -e '.[cli,daft,ray,dask,datafusion,duckdb,pandas,polars]' \
'adbc-driver-flightsql>=1.3' 'hypothesis>=6.120' 'moto[glue,s3,server,sqs]>=5.2.5' 'pytest>=8.3' 'pytest-xdist>=3.6'
mvn -q -B dependency:copy -Dartifact=org.apache.arrow:flight-sql-jdbc-driver:18.3.0 -DoutputDirectory=build/jdbc
build/engines/bin/python -m pytest -m 'slow or not slow' tests/engines tests/server
endef

define long-failing-disk
$(BIN)/python -m tests.crash.disk faults --seed $${SEED:-0}
$(BIN)/python -m tests.crash.disk reads
$(BIN)/python -m tests.crash.disk power
$(BIN)/python -m tests.crash.disk faults --seed $${SEED:-0} --version 6
$(BIN)/python -m tests.crash.disk power --version 6
endef

define long-failing-store
$(BIN)/python -m tests.crash.store --seed $${SEED:-0}
$(BIN)/python -m tests.crash.store --seed $${SEED:-0} --version 6
endef

long-faults = $(BIN)/python -m tests.index_faults --keys 2000000 --faults 3000 --seed $${SEED:-1}

define long-filters
FILTERS=20000 $(PYTEST) -m 'slow or not slow' tests/read/test_generated_filters.py tests/read/test_sqlglot_versions.py
FILTERS=400 $(PYTEST) tests/spark/test_generated_filters.py
endef

define long-fuzz
$(BIN)/python -m tests.fuzz.run --count 20000 --seed $${SEED:-0}
$(PYTEST) -m 'slow and not interop and not browser and not azure and not catalogs and not engines and not engines_local and not hbase and not hdfs and not kafka and not s3a and not zookeeper and not hudi_rs and not outsiders and not postgres' tests
endef

define long-hbase
$(BIN)/python -m tests.support.hbase --fetch
$(PYTEST) -m hbase tests/interop/test_hbase.py
endef

define long-hdfs
$(BIN)/python -m tests.support.hdfs --fetch
$(PYTEST) -m hdfs tests/contracts tests/interop
endef

long-history = $(BIN)/python -m tests.history --seed $${SEED:-1} --rounds 200 --ops 500

define long-hudi-rs
$(BIN)/python -m tests.support.hudi_rs --build
$(PYTEST) -m hudi_rs tests/interop/test_hudi_rs.py
endef

# On one machine the process is killed, on Spark 20 times the driver and 80 times all Python workers.
# INGEST_KILLS: more options, such as --hudi, which lets Apache Hudi read the tables.
define long-ingest-kills
$(PYTEST) -m slow tests/spark/test_ingest_kills.py tests/interop/test_ingest_kills.py
for engine in local spark; do \
  $(BIN)/python -m tests.ingest.kill_run kafka --engine $$engine --servers $$PYHUDI_KAFKA $(INGEST_KILLS) || exit 1; \
  $(BIN)/python -m tests.ingest.kill_run files --engine $$engine $(INGEST_KILLS) || exit 1; \
done
endef

long-interop = $(PYTEST) -m 'interop or slow' tests/interop

# PYHUDI_SCHEMA_REGISTRY: URL of a registry with the interface of Confluent's, such as
# http://127.0.0.1:8081/apis/ccompat/v7 of Apicurio.
long-kafka = $(PYTEST) -m kafka tests/ingest

long-kills = $(BIN)/python -m tests.spark.streaming_kill --kills 50 --seed $${SEED:-0}

long-model = $(BIN)/python -m tests.model.run

long-mutants = $(BIN)/python -m tests.mutants.run

long-newcomer = $(PYTEST) -s -m slow tests/newcomer

# PYHUDI_HUDI_RS_TABLES: the folder crates/test/data of a clone of github.com/apache/hudi-rs.
long-outsiders = $(PYTEST) -m 'slow or not slow' tests/outsiders

long-postgres = $(PYTEST) -m postgres tests/ingest

define long-properties
$(BIN)/python -m tests.properties.table_machine --minutes 10 --seed $${SEED:-0}
$(PYTEST) -m slow tests/spark/test_read_properties.py
endef

# Pieces of make long run these tests in parts, and the suite on build/py3.13.
define long-pythons
for release in 3.12 3.13 3.14; do \
  $(BIN)/python -m tests.support.pythons $$release || exit 1; \
  build/py$$release/bin/python -m pytest -p no:xdist -m 'not slow and not interop and not spark' \
  tests/native tests/formats tests/table tests/write tests/read || exit 1; \
done
endef

# The sanitizers need their runtime before Python's own libraries.
SANITIZED := build/sanitize/lib
define long-sanitize
PYHUDI_SANITIZE=1 $(BIN)/python setup.py -q build --build-base build/sanitize --build-lib $(SANITIZED)
PYTHONPATH=$(SANITIZED):. ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
LD_PRELOAD="$$($${CC:-gcc} -print-file-name=libasan.so) $$($${CC:-gcc} -print-file-name=libstdc++.so.6)" \
$(BIN)/python -P -m tests.fuzz.run --count 2000 --seed $${SEED:-0}
endef

long-simulate = $(BIN)/python -m tests.simulation --seconds $$(( $${MINUTES:-10} * 60 ))

define long-spark-stores
$(BIN)/python -m tests.support.hdfs --fetch
$(BIN)/python -m tests.support.spark_s3 --fetch
$(PYTEST) -m 'spark and (hdfs or s3a)' tests/spark
endef

# PySpark 3.5 needs pandas 2, and its newest releases declare no numpy 2.  Tests of APIs that a release
# does not have are named and left out.
SPARKS := 3.5 4.0 4
long-spark-versions = @status=0; for version in $(SPARKS); do $(MAKE) long-spark-version-$$version || status=1; done; exit $$status

on_version = $(BIN)/python -m pytest -n 2 --dist loadscope --table-version=$(1) --every-case -m 'not slow and not interop and not spark'
long-test-version-6 = $(call on_version,6)
long-test-version-8 = $(call on_version,8)

define long-torn
$(BIN)/python -m tests.crash.torn --seed $${SEED:-0}
$(BIN)/python -m tests.crash.torn --seed $${SEED:-0} --version 6
endef

long-zookeeper = $(PYTEST) -m zookeeper tests
