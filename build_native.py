"""Compile `ucm/native/*.c` into a shared library, on x86-64 also into one for AVX2: hatchling's build hook,
and in a checkout `python build_native.py`.

The compiler is `$CC`, else `cc`, else zig's (`pip install ziglang`), which the hook requests only where no
`cc` compiles and links a two-line program. `CFLAGS` and `LDFLAGS` are appended. `UCM_TARGET` names another
machine as zig does (aarch64-linux-gnu.2.17), and then zig compiles. Warnings are printed, and errors with
CFLAGS=-Werror.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from cffi import FFI

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # called in a checkout, without hatchling
    BuildHookInterface: Any = object

HERE = Path(__file__).resolve().parent
NATIVE = HERE / "ucm" / "native"
LIBRARY = "_kernels.bin"  # on every system; by .so Python would take it for a module of its own
AVX2 = "_kernels_avx2.bin"  # the same, for processors that have it; only on x86-64
GENERATED = "_declarations.py"

ZIG = "ziglang==0.15.2"
FLAGS = [
    "-std=c11",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-fno-trapping-math",
    "-fno-math-errno",
]
ORDERED = ["-ffp-contract=off"]
REASSOCIATED = ["-fassociative-math", "-fno-signed-zeros", "-ffp-contract=fast"]
CONTRACTED = ["-ffp-contract=fast"]
REDUCTIONS = {
    "coordinate.c",
    "dense_newton.c",
    "hulls.c",
    "outer.c",
    "rows.c",
    "sums.c",
}
"""Files whose sums may be reassociated, so that they vectorise; in none stands `(v - ref) - shift`."""
FUSED = {"kernels.c", "smo.c"}
"""Files whose products and sums may be fused, but not reassociated."""

PROBE = "#include <math.h>\nint main(int n, char **v) { (void)v; return (int)cos((double)n); }\n"
TARGETS = {
    "x86_64-linux-gnu.2.17": "manylinux_2_17_x86_64", "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64",
    "x86_64-linux-musl": "musllinux_1_2_x86_64", "aarch64-linux-musl": "musllinux_1_2_aarch64",
    "x86_64-macos.11.0": "macosx_11_0_x86_64", "aarch64-macos.11.0": "macosx_11_0_arm64",
    "x86_64-windows-gnu": "win_amd64",
}  # fmt: skip
"""What `UCM_TARGET` may be, and the wheel's platform."""


class BuildError(Exception):
    """The library cannot be built here."""


def sources(folder: Path = NATIVE) -> list[Path]:
    return sorted([*folder.glob("*.c"), *folder.glob("*.h")])


def source_hash(folder: Path = NATIVE) -> str:
    """A hash of the sources, which the library holds."""
    parts = [f"{f.name}\n{f.read_text(encoding='utf-8')}" for f in sources(folder)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def run(command: list[str]) -> str | None:
    """None where the command succeeds, with its warnings printed, else its message."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        return str(error)
    if done.returncode:
        return done.stderr + done.stdout
    sys.stderr.write(done.stderr)
    return None


def zig() -> list[str] | None:
    found = importlib.util.find_spec("ziglang") is not None
    return [sys.executable, "-m", "ziglang", "cc"] if found else None


def refusal(compiler: list[str]) -> str | None:
    """Why a compiler does not serve: None where it compiles and links two lines with math.h."""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe.c")
        probe.write_text(PROBE, encoding="utf-8")
        libm = [] if sys.platform == "win32" else ["-lm"]
        out = probe.with_suffix(".out")
        why = run([*compiler, "-std=c11", "-O1", str(probe), "-o", str(out), *libm])
        return why if why is not None or out.exists() else "nothing, and it wrote no program"


def own_compiler() -> list[str] | None:
    """`$CC`, or `cc` where it serves."""
    if named := shlex.split(os.environ.get("CC", "")):
        return named
    return ["cc"] if shutil.which("cc") and refusal(["cc"]) is None else None


def compiler_and_target() -> tuple[list[str], str]:
    """The command of the compiler, and the machine it compiles for."""
    here = sysconfig.get_platform()
    if target := os.environ.get("UCM_TARGET"):
        if target not in TARGETS:
            raise BuildError(f"UCM_TARGET={target} is unknown; it is one of {', '.join(TARGETS)}")
        if (command := zig()) is None:
            raise BuildError(f"UCM_TARGET needs zig: pip install {ZIG}")
        return [*command, "-target", target], TARGETS[target]
    command = own_compiler()
    if command is None and (command := zig()) is not None:
        command += ["-mcpu=baseline"]  # zig's own choice is this machine's processor
    if command is None:
        raise BuildError(
            "no C compiler: `cc` does not compile and link a program with math.h. Install one (Debian: apt"
            " install gcc libc6-dev; Fedora: dnf install gcc; macOS: xcode-select --install), name one by"
            f" CC=..., or pip install {ZIG}"
        )
    if os.environ.get("CC") and (why := refusal(command)) is not None:
        raise BuildError(
            f"CC={os.environ['CC']} does not compile and link two lines of C with gcc's options (-std=c11 -O1"
            " -o). A driver in the style of gcc is needed: gcc, clang, or zig (without CC, pip install"
            f" {ZIG}). It said:\n{why}"
        )
    return command, here


def declarations(folder: Path = NATIVE) -> str:
    """The structures, and the prototypes of the functions that are defined as EXPORT."""
    definitions = "".join(f.read_text(encoding="utf-8") for f in sources(folder) if f.suffix == ".c")
    prototypes = re.findall(r"^EXPORT (?:VECTORISED )?([^()]+\([^()]*\))", definitions, flags=re.M)
    text = (folder / "structures.h").read_text(encoding="utf-8")
    return "\n".join([text, *(f"{prototype};" for prototype in prototypes)])


def generate(text: str, target: str) -> str:
    """The module that cffi reads in place of the declarations, with the parameters of each function and the
    pointers of each structure."""
    ffi = FFI()
    ffi.set_source("ucm.native._declarations", None)
    ffi.cdef(text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, GENERATED)
        with contextlib.redirect_stdout(None):
            ffi.emit_python_code(str(path))
        code = path.read_text(encoding="utf-8")
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    parameters = {}
    for name, arguments in re.findall(r"(\w+)\(([^)]*)\);", plain):
        pairs = [re.fullmatch(r"\s*(.*?)(\w+)\s*", a) for a in arguments.split(",") if a.strip() != "void"]
        parameters[name] = tuple((p[2], p[1].strip()) for p in pairs if p)
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", plain, flags=re.S):
        parameters[name] = tuple(
            (field, f"{words.strip()} *")
            for words, fields in re.findall(r"([\w ]+?) (\*[^;]*);", body)
            for field in re.findall(r"\w+", fields)
        )
    return f"{code}\nTARGET = {target!r}\nSOURCES = {source_hash()!r}\nPARAMETERS = {parameters!r}\n"


def build(folder: Path = NATIVE) -> str:
    """Compile into `folder`: the machine compiled for. Files are replaced whole, so that another process that
    loads or builds the library meanwhile has a whole one."""
    compiler, target = compiler_and_target()
    extra = shlex.split(os.environ.get("CFLAGS", ""))
    linked = [
        *([] if target.startswith("win") else ["-lm"]),
        *shlex.split(os.environ.get("LDFLAGS", "")),
    ]
    flags = [*FLAGS, f'-DUCM_SOURCES="{source_hash()}"', *extra]
    wide = re.search("x86_64|amd64|universal2", target) is not None
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build") as scratch:
        for library, defined in ((LIBRARY, []), *([(AVX2, ["-DUCM_AVX2"])] if wide else [])):
            objects = []
            for source in (f for f in sources() if f.suffix == ".c"):
                order = CONTRACTED if source.name in FUSED else ORDERED
                order = REASSOCIATED if source.name in REDUCTIONS else order
                out = str(Path(scratch, source.stem + ".o"))
                fail(run([*compiler, *flags, *order, *defined, "-c", str(source), "-o", out]), source.name)
                objects.append(out)
            out = str(Path(scratch, library))
            fail(run([*compiler, "-shared", *extra, "-o", out, *objects, *linked]), "the library")
        Path(scratch, GENERATED).write_text(generate(declarations(), target), encoding="utf-8")
        (folder / AVX2).unlink(missing_ok=True)  # that of an earlier build for another machine
        for name in (LIBRARY, *([AVX2] if wide else []), GENERATED):
            Path(scratch, name).replace(folder / name)
    return target


def fail(message: str | None, what: str) -> None:
    if message is not None:
        raise BuildError(
            f"the C compiler fails at {what} ({platform.platform()}). Its message:\n{message}\n"
            "Set CC to another compiler (gcc or clang)."
        )


class Kernels(BuildHookInterface):  # pyright: ignore
    """The build hook: builds the library before the wheel, and names the wheel by the machine alone."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        other = bool(os.environ.get("UCM_TARGET"))
        return [ZIG] if other or own_compiler() is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        target = build()
        build_data["artifacts"] += [f"ucm/native/{name}" for name in (LIBRARY, AVX2, GENERATED)]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{re.sub('[-.]', '_', target)}"


if __name__ == "__main__":
    try:
        print(f"ucm/native/{LIBRARY} for {build()}")
    except BuildError as error:
        raise SystemExit(f"build_native: {error}") from None
