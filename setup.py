"""Builds the Cython core; everything else about the package stands in pyproject.toml.

Each module names its own language and flags in the `# distutils:` lines at its top.
"""

import os
import shutil
import sys
import sysconfig

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

WINDOWS = sys.platform == "win32"  # the core needs 128-bit integers: MinGW-w64, as MSVC has none
DEFAULT_COMPILER = "gcc" if WINDOWS else "cc"
COMPILER = (os.environ.get("CC") or sysconfig.get_config_var("CC") or DEFAULT_COMPILER).split()[0]
if shutil.which(COMPILER) is None:
    sys.exit(f"pyhudi needs a C compiler, and '{COMPILER}' was not found: install gcc or clang")

# PYHUDI_SANITIZE=1: the core with AddressSanitizer and UndefinedBehaviorSanitizer, see Makefile.
SANITIZED = os.environ.get("PYHUDI_SANITIZE") == "1"
SANITIZERS = ["-fsanitize=address,undefined"] if SANITIZED else []
CAREFUL = ["-O1", "-g1", "-fno-omit-frame-pointer"] if SANITIZED else ["-O3", "-g0"]

# PYHUDI_WITHOUT_CORE=1: Python only, for make build, which compiles the core in another process.
WITHOUT_CORE = os.environ.get("PYHUDI_WITHOUT_CORE") == "1"

CORES = os.cpu_count() or 1


class ParallelBuild(build_ext):
    """Compiles as many extensions at a time as there are cores, unless --parallel is given."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or CORES
        self.compiler = self.compiler or ("mingw32" if WINDOWS else None)


setup(
    cmdclass={"build_ext": ParallelBuild},
    ext_modules=[]
    if WITHOUT_CORE
    else cythonize(
        [
            Extension(
                f"{package}.*",
                [f"{package.replace('.', '/')}/*.pyx"],
                include_dirs=[numpy.get_include()],
                extra_compile_args=[*CAREFUL, *SANITIZERS, "-fno-strict-aliasing"],
                extra_link_args=[*SANITIZERS, *(["-static-libgcc"] if WINDOWS else [])],
                define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
            )
            for package in ("pyhudi._native", "pyhudi._native.avro", "pyhudi._native.hfile")
        ],
        build_dir="build/cython",
        nthreads=CORES if sys.platform == "linux" else 0,  # its processes must be forked
        language_level=3,
        compiler_directives={
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
        },
    ),
)
