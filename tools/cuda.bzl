"""Device code: .cu.cc files, compiled by nvcc for GPUs and by the host's compiler for the doubles.

Without a toolkit (@local_cuda) all of these targets are incompatible, and skipped.
"""

load("@local_cuda//:defs.bzl", "CUDA_FOUND", "CUDA_HOME")
load("@rules_cc//cc:defs.bzl", "cc_library")
load("//tools:cc.bzl", "zs_cc_library")

# The architectures that are built; PTX of the lowest is what later ones are compiled from by the driver.
ARCHITECTURES = ["80", "90", "100", "120"]

_NVCC_FLAGS = [
    "-std=c++20",
    "-O3",
    "--expt-relaxed-constexpr",
    # What is to be fused says so (fmaf), as in tools/cc.bzl.
    "-fmad=false",
    "-ftz=false",
    "-prec-div=true",
    "-prec-sqrt=true",
    "-Xcompiler=-fPIC,-ffp-contract=off",
]

def _architecture_flags(architectures, is_ptx):
    ptx = ["-gencode=arch=compute_%s,code=compute_%s" % (architectures[0], architectures[0])]
    if is_ptx:
        return ptx + ["--compress-mode=none"]
    return ["-gencode=arch=compute_%s,code=sm_%s" % (a, a) for a in architectures] + ptx

def _cuda_objects_impl(ctx):
    cc_info = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    compilation = cc_info.compilation_context
    objects = []
    for src in ctx.files.srcs:
        suffix = ".ptx.pic.o" if ctx.attr.is_ptx else ".cu.pic.o"
        object = ctx.actions.declare_file(src.basename[:-len(".cu.cc")] + suffix)
        args = ctx.actions.args()
        args.add(CUDA_HOME + "/bin/nvcc")
        args.add_all(_NVCC_FLAGS)
        args.add_all(_architecture_flags(ARCHITECTURES, ctx.attr.is_ptx))
        if "-Werror" in ctx.fragments.cpp.copts:
            args.add("-Werror=all-warnings")
        args.add_all(compilation.quote_includes, before_each = "-I")
        args.add_all(compilation.includes, before_each = "-I")
        args.add_all(compilation.system_includes, before_each = "-isystem")
        args.add_all(compilation.defines, before_each = "-D")
        args.add_all(["-x", "cu", "-c", src, "-o", object])
        ctx.actions.run(
            executable = ctx.executable._nvcc,
            arguments = [args],
            inputs = depset([src] + ctx.files._version, transitive = [compilation.headers]),
            outputs = [object],
            mnemonic = "NvccCompile",
            progress_message = "Compiling %s for GPUs" % src.short_path,
            use_default_shell_env = True,
        )
        objects.append(object)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu.cc"], mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        # With no image of any GPU, but with its PTX as text, for //device/cuda/ptx.
        "is_ptx": attr.bool(),
        "_nvcc": attr.label(default = Label("//tools:nvcc.sh"), executable = True, cfg = "host", allow_single_file = True),
        # So that another toolkit compiles anew.
        "_version": attr.label(default = Label("@local_cuda//:version")),
    },
    fragments = ["cpp"],
)

def cuda_architectures(name):
    """A library NAME with the header NAME.h: kArchitectures, what is built, for messages; kLeastArchitecture, the oldest that it runs on."""
    text = ", ".join(["sm_" + a for a in ARCHITECTURES]) + " and PTX of compute_" + ARCHITECTURES[0]
    lines = [
        "// What GPUs this program was compiled for (tools/cuda.bzl).",
        "#pragma once",
        "namespace zeroshard::device::cuda {",
        "inline constexpr char kArchitectures[] = \"%s\";" % text,
        "inline constexpr int kLeastArchitecture = %s;" % ARCHITECTURES[0],
        "}  // namespace zeroshard::device::cuda",
    ]
    native.genrule(
        name = name + "_header",
        outs = [name + ".h"],
        cmd = "printf '%s\\n' " + " ".join(["'%s'" % line for line in lines]) + " > $@",
    )
    zs_cc_library(name = name, hdrs = [name + ".h"])

def cuda_kernels(name, srcs, hdrs, deps = [], kernel_deps = [], **kwargs):
    """Kernels, and the plain functions that launch them.

    Four libraries: NAME, the functions' declarations, which any C++ may include; NAME_on_gpu, NAME_on_doubles and NAME_on_ptx, what they
    link to, of which the final target takes one (//device/cuda:on_gpu, //device/cuda/doubles, the same with //device/cuda/ptx:launch_ptx).

    Args:
      name: as the header, without its suffix.
      srcs: .cu.cc files.
      hdrs: headers without device code.
      deps: of the headers.
      kernel_deps: of the .cu.cc files alone: libraries of headers with device code, whose own dependencies are such too.
      **kwargs: of all three.
    """
    zs_cc_library(
        name = name,
        hdrs = hdrs,
        deps = deps + ["@local_cuda//:headers"],
        **kwargs
    )
    inner = [":" + name, Label("//device/cuda:launch")] + kernel_deps
    for where, objects in {"gpu": "_objects", "ptx": "_ptx_objects"}.items():
        is_ptx = where == "ptx"
        _cuda_objects(
            name = name + objects,
            testonly = is_ptx,
            srcs = srcs,
            deps = inner,
            is_ptx = is_ptx,
        )

        # Linked whole: nothing refers to a kernel but the functions above, which link in any order.
        cc_library(
            name = name + "_on_" + where,
            testonly = is_ptx,
            srcs = [name + objects],
            alwayslink = True,
            deps = [":" + name],
            **kwargs
        )
    zs_cc_library(
        name = name + "_on_doubles",
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        deps = inner + [Label("//device/cuda/doubles:launch_on_double")],
        **kwargs
    )

def calls_not_doubled(name, prefix, srcs):
    """A source NAME.cc: each function of the toolkit that `srcs` do not define ends the test by its name.

    Args:
      name: of the source, without its suffix.
      prefix: which functions: a regular expression of how their names begin.
      srcs: the doubles' sources.
    """
    native.genrule(
        name = name,
        testonly = True,
        srcs = ["@local_cuda//:doubled_headers"] + srcs,
        outs = [name + ".cc"],
        cmd = """
            calls() { grep -ohE "^[a-zA-Z].*\\b(%s)[A-Z]\\w*\\(" "$$@" | grep -oE "\\b(%s)[A-Z]\\w*\\(" | tr -d "(" | sort -u; }
            {
              echo '#include "zeroshard/device/late/end_test.h"'
              echo 'extern "C" {'
              comm -23 <(calls $(locations @local_cuda//:doubled_headers)) <(calls %s) | sed -E \
                's/.*/void &() { zeroshard::device::EndTest("& is called, which the doubles do not have"); }/'
              echo '}'
            } >$@
        """ % (prefix, prefix, " ".join(["$(location %s)" % src for src in srcs])),
        target_compatible_with = [] if CUDA_FOUND else ["@local_cuda//:toolkit"],
    )
