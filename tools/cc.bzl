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
    cc_library(name = name, hdrs = hdrs, copts = _COPTS + copts, **prefixed)

def zs_cc_binary(name, copts = [], **kwargs):
    cc_binary(name = name, copts = _COPTS + copts, **kwargs)

def zs_cc_test(name, copts = [], size = "small", deps = [], **kwargs):
    cc_test(
        name = name,
        size = size,
        copts = _COPTS + copts,
        deps = deps + ["@com_google_googletest//:gtest_main"],
        **kwargs
    )
