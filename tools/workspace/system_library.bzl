"""A repository for a library that the machine already has."""

def _tokens(ctx, args):
    result = ctx.execute(["pkg-config"] + args)
    if result.return_code:
        return None
    return [t for t in result.stdout.strip().split(" ") if t]

def _system_library_impl(ctx):
    linkopts = list(ctx.attr.linkopts)
    missing = []
    for module in ctx.attr.pkg_config:
        found = _tokens(ctx, ["--libs", module])
        if found == None:
            missing.append("pkg-config module " + module)
        else:
            linkopts += [f for f in found if f not in linkopts]
    for header in ctx.attr.headers:
        path = ctx.path("/usr/include/" + header)
        if path.exists:
            ctx.symlink(path, "include/" + header)
        else:
            missing.append(str(path))
    if missing:
        text = "%s: no %s; apt-get install %s" % (ctx.name, ", ".join(missing), ctx.attr.package)
        ctx.file("missing.txt", text + "\n")
        ctx.file("BUILD.bazel", """
genrule(name = "missing", srcs = ["missing.txt"], outs = ["missing.h"], cmd = "cat $< >&2; false")
cc_library(name = "%s", hdrs = ["missing.h"], srcs = ["missing.h"], visibility = ["//visibility:public"])
""" % ctx.attr.library)
        return
    ctx.template("BUILD.bazel", ctx.attr.build_file, {
        "%{library}": ctx.attr.library,
        "%{linkopts}": repr(linkopts),
    })

system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    configure = True,
    environ = ["PKG_CONFIG_PATH"],
    attrs = {
        "library": attr.string(mandatory = True),
        "package": attr.string(mandatory = True, doc = "Debian package named in the error."),
        "pkg_config": attr.string_list(),
        "headers": attr.string_list(doc = "Files or folders under /usr/include."),
        "linkopts": attr.string_list(doc = "For a library without a .pc file."),
        "build_file": attr.label(
            allow_single_file = True,
            default = Label("//tools/workspace/system:library.BUILD"),
        ),
    },
)
