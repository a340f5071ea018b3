"""Rule repositories that Bazel 4 would otherwise download, for machines without a network.

Only a root workspace calls this; one that is online, or already has these
repositories, leaves it out. Every repository already defined is kept.
"""

_RULES_CC = """
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_library = native.objc_library
"""

_COVERAGE = """
package(default_visibility = ["//visibility:public"])
filegroup(name = "coverage_report_generator")
filegroup(name = "lcov_merger")
"""

# Debian's bazel-rules-cc 0.0.4 needs Bazel 5, and the coverage tools have no package.
_GENERATED = {
    "rules_cc": {"cc/BUILD": "", "cc/defs.bzl": _RULES_CC},
    "remote_coverage_tools": {"BUILD": _COVERAGE},
}

_DEBIAN = {
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "rules_java": "/usr/share/bazel/rules/java",
    "rules_proto": "/usr/share/bazel/rules/proto",
}

def _generated_impl(ctx):
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    for path, text in ctx.attr.files.items():
        ctx.file(path, text)

_generated_repository = repository_rule(
    implementation = _generated_impl,
    attrs = {"files": attr.string_dict()},
)

def zeroshard_offline_rules():
    for name, files in _GENERATED.items():
        if not native.existing_rule(name):
            _generated_repository(name = name, files = files)
    for name, path in _DEBIAN.items():
        if not native.existing_rule(name):
            native.local_repository(name = name, path = path)
