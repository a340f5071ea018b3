"""clang-format and clang-tidy over the C++ of every target: `bazel build --config=lint //...`.

Each source is an action of its own, so only what changed is looked at again. Findings are errors. Rules: .clang-format and
.clang-tidy in the top folder. `clang-format -i FILE` settles the first kind.
"""

# As tools/cc.bzl, where clang needs it to read the code.
_FLAGS = ["-x", "c++", "-std=c++20", "-march=haswell", "-maes"]

_FORMAT = """
set -eu
clang-format --style=file --dry-run --Werror "$2"
touch "$1"
"""

_TIDY = """
set -u
out=$1 source=$2
shift 2
if clang-tidy --quiet "$source" -- "$@" >"$out" 2>"$out.noise"; then exit 0; fi
cat "$out"
grep -E "error:|fatal" "$out.noise"
exit 1
"""

def _sources(ctx):
    files = []
    for attribute in ["hdrs", "srcs"]:
        for target in getattr(ctx.rule.attr, attribute, []):
            files += [f for f in target.files.to_list() if f.is_source and f.extension in ["h", "cc"]]
    return files

def _flags(context):
    flags = list(_FLAGS)
    flags += ["-D" + d for d in context.defines.to_list() + context.local_defines.to_list()]
    for option, folders in [
        ("-iquote", context.quote_includes),
        ("-I", context.includes),
        ("-isystem", context.system_includes),
    ]:
        for folder in folders.to_list():
            # Other people's headers are read, not judged.
            flags += ["-isystem" if "external/" in folder else option, folder]
    return flags

def _check(ctx, mnemonic, command, source, inputs, flags):
    out = ctx.actions.declare_file("{}.{}.{}".format(ctx.label.name, source.basename, mnemonic.lower()))
    ctx.actions.run_shell(
        mnemonic = mnemonic,
        progress_message = mnemonic + " " + source.short_path,
        command = command,
        arguments = [out.path, source.path] + flags,
        inputs = depset([source, ctx.file._format, ctx.file._tidy], transitive = inputs),
        outputs = [out],
        use_default_shell_env = True,
    )
    return out

def _lint_impl(target, ctx):
    if target.label.workspace_root or CcInfo not in target:
        return [OutputGroupInfo(lint = depset())]
    context = target[CcInfo].compilation_context
    sources = _sources(ctx)
    stamps = [_check(ctx, "ClangFormat", _FORMAT, f, [], []) for f in sources]

    # A header is judged where a source of its target includes it, and by itself where there is no source. What Highway includes
    # once for each instruction set is judged in the sources that include it.
    judged = [f for f in sources if f.extension == "cc"]
    if not judged:
        judged = [f for f in sources if not f.basename.endswith("-inl.h")]
    stamps += [_check(ctx, "ClangTidy", _TIDY, f, [context.headers], _flags(context)) for f in judged]
    return [OutputGroupInfo(lint = depset(stamps))]

lint_aspect = aspect(
    implementation = _lint_impl,
    attrs = {
        "_format": attr.label(default = "//:.clang-format", allow_single_file = True),
        "_tidy": attr.label(default = "//:.clang-tidy", allow_single_file = True),
    },
)
