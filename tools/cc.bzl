"""C++ rules of this repository: one warning set, one arithmetic, and headers under zeroshard/."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wshadow",
    "-Wunused-result",
    # GCC fuses multiplies and adds by itself, in intrinsics too; what is to be fused says so.
    "-ffp-contract=off",
    # The oldest machine that the program starts on; wider vectors are chosen at run time.
    "-march=haswell",
    "-maes",
]

# A collective of a few bytes takes what its instructions take. -fno-tree-slp-vectorize: GCC would put fields that were written one by
# one a moment ago together in a wide register, which waits until they have come to the cache.
_BRIEF_COPTS = ["-O3", "-fno-semantic-interposition", "-fno-tree-slp-vectorize", "-fomit-frame-pointer"]
_BRIEF_PACKAGES = ["comm", "comm/schedules", "backends/ucx"]

def _copts():
    if native.package_name() not in _BRIEF_PACKAGES:
        return _COPTS
    return _COPTS + select({"//:sanitized": [], "//conditions:default": _BRIEF_COPTS})

def zs_cc_library(name, hdrs = [], copts = [], **kwargs):
    """A library whose headers are included as "zeroshard/PACKAGE/HEADER".

    Args:
      name: as the header, without its suffix.
      hdrs: public headers.
      copts: none in BUILD files; for the macros of this repository.
      **kwargs: of cc_library.
    """
    prefixed = {}
    if hdrs:
        prefixed = {
            "include_prefix": "zeroshard/" + native.package_name(),
            "strip_include_prefix": ".",
        }
    prefixed.update(kwargs)
    cc_library(name = name, hdrs = hdrs, copts = _copts() + copts, **prefixed)

def zs_cc_binary(name, copts = [], **kwargs):
    cc_binary(name = name, copts = _COPTS + copts, **kwargs)

def zs_cc_test(name, copts = [], size = "small", deps = [], **kwargs):
    cc_test(
        name = name,
        size = size,
        copts = _COPTS + copts,
        deps = deps + ["@com_google_googletest//:gtest_main", "//tools/sanitizers:status_references"],
        **kwargs
    )

def zs_fuzz_target(name, srcs, deps = [], corpus = []):
    """A fuzz target (tools/fuzz/fuzz_target.h): NAME_test, a quick test under any build, and NAME, libFuzzer's program.

    Args:
      name: of the target.
      srcs: defines LLVMFuzzerTestOneInput and zeroshard::fuzz::Seeds.
      deps: of srcs.
      corpus: files that once failed; they are fed first.
    """
    zs_cc_library(
        name = name + "_entry",
        testonly = True,
        srcs = srcs,
        deps = deps + ["//tools/fuzz:fuzz_target"],
        alwayslink = True,  # libFuzzer's main, in no library of ours, calls it.
    )
    cc_test(
        name = name + "_test",
        size = "small",
        srcs = ["//tools/fuzz:replay.cc"],
        copts = _COPTS,
        data = corpus,
        args = ["$(rootpath %s)" % file for file in corpus],
        deps = [name + "_entry", "//tools/fuzz:fuzz_target"],
    )

    # manual: only clang has libFuzzer, and only --config=fuzz asks for it.
    zs_cc_binary(
        name = name,
        testonly = True,
        srcs = ["//tools/fuzz:seeded_mutator.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [name + "_entry", "//tools/fuzz:fuzz_target"],
    )
