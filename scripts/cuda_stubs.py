"""Stands in for the CUDA libraries that torch's wheel links to and a CPU never calls.

PyPI's torch for x86-64 Linux is built for CUDA and asks for gigabytes of NVIDIA's libraries before
it can be imported. This writes libraries of the missing names beside torch's own: they have every
symbol that torch links to and nothing behind it.

usage: cuda_stubs.py FOLDER    FOLDER is torch/lib of the environment; needs readelf and a C compiler
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FROM_NVIDIA = re.compile(r"(lib)?(cu|nv|nccl)")
FROM_THE_DRIVER = {"libcuda.so.1"}  # torch opens it by itself and does without


def readelf(option, library):
    command = ["readelf", "-W", option, str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def missing_names(libraries, present):
    """Names of NVIDIA's libraries that these link to and that are not there."""
    linked = {n for lib in libraries for n in re.findall(r"NEEDED.*\[(.*)\]", readelf("-d", lib))}
    return {n for n in linked if FROM_NVIDIA.match(n)} - present - FROM_THE_DRIVER


def version_owners(libraries):
    """{symbol version: name of the library it is of}"""
    owners = {}
    for library in libraries:
        for line in readelf("-V", library).splitlines():
            if found := re.search(r"File: (\S+)", line):
                name = found[1]
            elif found := re.search(r"Name: (\S+)\s+Flags: \S+\s+Version: \d+", line):
                owners[found[1]] = name
    return owners


def undefined_symbols(library):
    """(symbol, version or "") of what a library expects others to define."""
    for line in readelf("--dyn-syms", library).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] == "GLOBAL" and fields[6] == "UND":
            name, _, version = fields[7].partition("@")
            yield name, version


def symbols_by_library(libraries, missing):
    """{library: {version: names}}; the loader does not ask where a symbol without version lies."""
    owners = version_owners(libraries)
    anywhere = min(missing)
    out = {name: collections.defaultdict(set) for name in missing}
    for library in libraries:
        for symbol, version in undefined_symbols(library):
            owner = owners.get(version) if version else anywhere
            if owner in missing and (version or FROM_NVIDIA.match(symbol)):
                out[owner][version].add(symbol)
    return out


def write_stub(path, versions):
    names = sorted(set().union(*versions.values()))
    nodes = [f"{v} {{ {'; '.join(sorted(symbols))}; }};" for v, symbols in versions.items() if v]
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "stub.map")
        source.write_text("int stub;\n" + "".join(f"long {name}[64];\n" for name in names))
        script.write_text("\n".join(nodes))
        options = [f"-Wl,--version-script={script}"] if nodes else []
        command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", f"-Wl,-soname,{path.name}"]
        subprocess.run([*command, *options, str(source), "-o", str(path)], check=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    libraries = sorted(folder.glob("*.so"))
    installed = (folder.parent.parent / "nvidia").rglob("*.so*")
    missing = missing_names(libraries, {path.name for path in installed})
    if not missing:
        return
    for name, versions in symbols_by_library(libraries, missing).items():
        write_stub(folder / name, versions)


main()
