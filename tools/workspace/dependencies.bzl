"""What zeroshard links against: Debian's packages, found on this machine.

A consumer's WORKSPACE calls zeroshard_dependencies(); every repository that it
has already defined under the same name is kept.
"""

load("//tools/workspace:cuda_configure.bzl", "cuda_configure")
load("//tools/workspace:cudnn_frontend.bzl", "cudnn_frontend")
load("//tools/workspace:system_library.bzl", "system_library")

# Abseil has no single library: these modules' closures cover what the project includes.
_ABSL_MODULES = [
    "absl_cleanup",
    "absl_flags",
    "absl_flags_parse",
    "absl_flags_usage",
    "absl_flat_hash_map",
    "absl_flat_hash_set",
    "absl_function_ref",
    "absl_inlined_vector",
    "absl_random_random",
    "absl_span",
    "absl_status",
    "absl_statusor",
    "absl_str_format",
    "absl_strings",
    "absl_synchronization",
    "absl_time",
]

def _system(name, **kwargs):
    if not native.existing_rule(name):
        system_library(name = name, **kwargs)

def zeroshard_dependencies():
    """Defines every repository that zeroshard's targets depend on."""
    _system("com_google_absl", library = "absl", package = "libabsl-dev", pkg_config = _ABSL_MODULES, headers = ["absl"])
    _system("com_github_google_glog", library = "glog", package = "libgoogle-glog-dev", pkg_config = ["libglog"], headers = ["glog"])
    _system("com_google_googletest", library = "gtest_main", package = "libgtest-dev libgmock-dev", pkg_config = ["gmock", "gtest"], headers = ["gtest", "gmock"], build_file = Label("//tools/workspace/system:googletest.BUILD"))
    _system("com_github_google_benchmark", library = "benchmark", package = "libbenchmark-dev", headers = ["benchmark"], linkopts = ["-lbenchmark"])
    _system("com_google_protobuf", library = "protobuf", package = "libprotobuf-dev protobuf-compiler", pkg_config = ["protobuf"], headers = ["google/protobuf"], build_file = Label("//tools/workspace/system:protobuf.BUILD"))
    _system("com_github_grpc_grpc", library = "grpc++", package = "libgrpc++-dev protobuf-compiler-grpc", pkg_config = ["grpc++"], headers = ["grpc", "grpcpp"])
    _system("gloo", library = "gloo", package = "libgloo-dev", headers = ["gloo"], linkopts = ["-lgloo"])
    _system("ucx", library = "ucx", package = "libucx-dev", pkg_config = ["ucx"], headers = ["ucp", "ucs", "uct"])
    _system("liburing", library = "uring", package = "liburing-dev", pkg_config = ["liburing"], headers = ["liburing.h", "liburing"])
    _system("onednn", library = "dnnl", package = "libdnnl-dev", headers = ["oneapi/dnnl"], linkopts = ["-ldnnl"])
    _system("highway", library = "hwy", package = "libhwy-dev", headers = ["hwy"], linkopts = ["-lhwy"])
    _system("nlohmann_json", library = "json", package = "nlohmann-json3-dev", headers = ["nlohmann"])
    _system("sentencepiece", library = "sentencepiece", package = "libsentencepiece-dev", headers = ["sentencepiece_processor.h", "sentencepiece_trainer.h"], linkopts = [])
    _system("zlib", library = "zlib", package = "zlib1g-dev", headers = ["zlib.h", "zconf.h"], linkopts = ["-lz"])
    if not native.existing_rule("local_cuda"):
        cuda_configure(name = "local_cuda")
    if not native.existing_rule("cudnn_frontend"):
        cudnn_frontend(name = "cudnn_frontend")
