"""Finds the headers of cuDNN's C++ frontend, which come as the Python package nvidia-cudnn-frontend.

Looked for in CUDNN_FRONTEND_HOME, in the user's cache, where tools/setup.sh puts them, and in /usr. Without them attention is done by our
kernels alone, and the repository says so in found.txt.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "cudnn_frontend",
    hdrs = glob(["include/**"], allow_empty = True),
    includes = ["include"],
)
"""

def _cudnn_frontend_impl(ctx):
    env = ctx.os.environ
    cache = env.get("XDG_CACHE_HOME") or env.get("HOME", "/root") + "/.cache"
    homes = [cache + "/zeroshard/cudnn_frontend", "/usr"]
    if env.get("CUDNN_FRONTEND_HOME"):
        homes = [env["CUDNN_FRONTEND_HOME"]]
    found = None
    for home in homes:
        include = ctx.path(home + "/include")
        if not found and include.get_child("cudnn_frontend.h").exists:
            found = include
    if found:
        for name in found.readdir():
            if name.basename.startswith("cudnn_frontend") or name.basename == "cudnn_backend_base.h":
                ctx.symlink(name, "include/" + name.basename)
    ctx.file("BUILD.bazel", _BUILD)
    ctx.file("found.txt", "%s\n" % (found or "not found in %s; run tools/setup.sh" % ", ".join(homes)))
    ctx.file("defs.bzl", "CUDNN_FRONTEND_FOUND = %s\n" % (found != None))

cudnn_frontend = repository_rule(
    implementation = _cudnn_frontend_impl,
    local = True,
    configure = True,
    environ = ["CUDNN_FRONTEND_HOME", "HOME", "XDG_CACHE_HOME"],
)
