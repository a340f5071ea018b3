"""Protocol buffers: messages, and gRPC services, as C++ libraries."""

load("//tools:cc.bzl", "zs_cc_library")

def zs_proto_library(name, src, services = False, **kwargs):
    """A library of what protoc makes of one .proto file, included as "zeroshard/PACKAGE/FILE.pb.h".

    Args:
      name: as the file, with "_proto" in place of ".proto".
      src: the .proto file; it imports none.
      services: whether it has gRPC services: their code is "zeroshard/PACKAGE/FILE.grpc.pb.h".
      **kwargs: of cc_library.
    """
    stem = src[:-len(".proto")]
    folder = "zeroshard/" + native.package_name()
    headers = [stem + ".pb.h"]
    sources = [stem + ".pb.cc"]
    options = "--cpp_out=$$out"
    deps = ["@com_google_protobuf//:protobuf"]
    if services:
        headers.append(stem + ".grpc.pb.h")
        sources.append(stem + ".grpc.pb.cc")
        options += " --grpc_out=$$out --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin)"
        deps.append("@com_github_grpc_grpc//:grpc++")
    native.genrule(
        name = name + "_code",
        srcs = [src],
        outs = headers + sources,
        # The folder's files under the name that they are included by. Nobody is warned of code that nobody wrote.
        cmd = ("out=$$(mktemp -d) && protoc --proto_path={folder}=$$(dirname $(SRCS)) {options} {folder}/{src} && " +
               "sed -i '1i #pragma GCC system_header' $$out/{folder}/*.h && " +
               "cp $$out/{folder}/* $(RULEDIR)/ && rm -r $$out").format(folder = folder, options = options, src = src),
    )
    zs_cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # Not our code: no warnings of it.
        copts = ["-w"],
        deps = deps,
        **kwargs
    )
