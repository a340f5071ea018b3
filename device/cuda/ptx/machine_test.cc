// Small kernels, and what is wrong with small kernels.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "zeroshard/device/cuda/ptx/block_run.h"
#include "zeroshard/device/cuda/ptx/parser.h"
#include "zeroshard/device/late/end_test.h"

namespace zeroshard::device::cuda::ptx {
namespace {

using ::testing::ExitedWithCode;

constexpr uint64_t kAddress = uint64_t{1} << 40;

// A kernel with one parameter, a pointer in %a, and what thread it is in %t.
std::string Text(const std::string& body, const std::string& before = "") {
  return absl::StrCat(".version 9.0\n.target sm_80\n.address_size 64\n", before, R"(
    .visible .entry kernel(.param .u64 p) .maxntid 256, 1, 1 {
    .reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .f64 %d<8>; .reg .b64 %rd<8>;
    .reg .b64 %a, %own; .reg .b32 %t;
    ld.param.u64 %a, [p];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %own, %t, 4;
    add.s64 %own, %own, %a;
    )",
                      body, "\nret;\n}\n");
}

std::vector<uint32_t> RunKernel(const std::string& text, std::vector<uint32_t> memory,
                                const LaunchShape& shape = {32, 1, false}) {
  const Module module = Parse(text);
  const Program& kernel = module.kernels.at("kernel");
  std::vector<std::byte> parameters(kernel.parameters[0].offset + 8);
  std::memcpy(parameters.data() + kernel.parameters[0].offset, &kAddress, 8);
  GlobalMemory global;
  global.BeginLaunch({{kAddress, static_cast<int64_t>(memory.size() * 4)}}, module.constants,
                     [&](uint64_t, int64_t) { return reinterpret_cast<std::byte*>(memory.data()); });
  BlockMemory own;
  BlockRun run(kernel, shape, parameters, global, own);
  for (unsigned block = 0; block < shape.blocks; ++block) run.Run(block);
  return memory;
}

// What one thread makes of {x, y}, in the first word.
uint32_t Of(const std::string& body, uint32_t x = 0, uint32_t y = 0) {
  const std::string text = Text("ld.global.u32 %r1, [%a]; ld.global.u32 %r2, [%a+4];" + body + "; st.global.u32 [%a], %r0;");
  return RunKernel(text, {x, y}, {1, 1, false})[0];
}

TEST(Machine, RunsALoopOfEachThread) {
  const std::string text = Text(R"(
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
  loop:
    add.s32 %r1, %r1, %r2;
    add.s32 %r2, %r2, 1;
    setp.le.u32 %p1, %r2, %t;
    @%p1 bra loop;
    st.global.u32 [%own], %r1;)");
  const std::vector<uint32_t> sums = RunKernel(text, std::vector<uint32_t>(64));
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(sums[t], t * (t + 1) / 2);
  EXPECT_EQ(sums[32], 0u);
}

TEST(Machine, ComputesAsPtxSays) {
  EXPECT_EQ(Of("sub.s32 %r0, %r1, %r2", 3, 5), ~1u);
  EXPECT_EQ(Of("mul.hi.u32 %r0, %r1, %r2", 1u << 31, 6), 3u);
  EXPECT_EQ(Of("shl.b32 %r0, %r1, %r2", 7, 40), 0u) << "all bits are out";
  EXPECT_EQ(Of("shr.s32 %r0, %r1, %r2", 0x80000000, 40), ~0u);
  EXPECT_EQ(Of("prmt.b32 %r0, %r1, %r2, 0x7604", 0x03020100, 0x17161514), 0x17160014u);
  EXPECT_EQ(Of("prmt.b32 %r0, %r1, %r2, 0x800b", 0x83020100, 0), 0x000000ffu) << "the sign of a byte";
  EXPECT_EQ(Of("bfi.b32 %r0, %r1, %r2, 8, 12", 0xfabc, 0x11111111), 0x111abc11u);
  EXPECT_EQ(Of("clz.b32 %r0, %r1", 0x00010000), 15u);
  EXPECT_EQ(Of("add.cc.u32 %r3, %r1, %r2; addc.u32 %r0, %r1, 0", ~0u, 1), 0u) << "all ones, and the carry";
  EXPECT_EQ(Of("sub.cc.u32 %r3, %r1, %r2; subc.u32 %r0, 9, 0", 1, 2), 8u) << "the borrow";
  EXPECT_EQ(Of("mov.b32 {%h1, %h2}, %r1; mov.b32 %r0, {%h2, %h1}", 0x12345678), 0x56781234u);
}

TEST(Machine, KnowsWhatPredicatesAre) {
  EXPECT_EQ(Of("mov.pred %p1, -1; not.pred %p2, %p1; selp.u32 %r0, 1, 2, %p2"), 2u) << "-1 is true";
  EXPECT_EQ(Of("mov.u32 %r0, 5; setp.eq.s32 %p1, %r1, 0; @!%p1 mov.u32 %r0, 6", 1), 6u);
}

TEST(Machine, ComputesFloatsAsAGpu) {
  constexpr uint32_t kOne = 0x3f800000, kNan = 0x7fc00000, kNegative = 0x80000000;
  const std::string floats = "mov.b32 %f1, %r1; mov.b32 %f2, %r2; ";
  EXPECT_EQ(Of(floats + "add.rn.f32 %f0, %f1, %f2; mov.b32 %r0, %f0", kOne, kOne), 0x40000000u);
  EXPECT_EQ(Of(floats + "add.rn.f32 %f0, %f1, %f2; mov.b32 %r0, %f0", kOne, kNan), 0x7fffffffu) << "the one NaN";
  EXPECT_EQ(Of(floats + "max.f32 %f0, %f1, %f2; mov.b32 %r0, %f0", kNan, kOne), kOne);
  EXPECT_EQ(Of(floats + "max.f32 %f0, %f1, %f2; mov.b32 %r0, %f0", kNegative, 0), 0u);
  EXPECT_EQ(Of(floats + "setp.lt.f32 %p1, %f1, %f2; setp.ltu.f32 %p2, %f1, %f2; selp.u32 %r3, 1, 0, %p1; "
                        "selp.u32 %r0, 2, %r3, %p2",
               kOne, kNan),
            2u);
  EXPECT_EQ(Of(floats + "cvt.rni.s32.f32 %r0, %f1", 0x40200000), 2u) << "2.5, to the even one";
  EXPECT_EQ(Of(floats + "cvt.rzi.s32.f32 %r0, %f1", 0x4f800000), 0x7fffffffu) << "2^32, to the greatest";
  EXPECT_EQ(Of("mov.f64 %d1, 0d4008000000000000; rcp.approx.ftz.f64 %d0, %d1; mov.b64 {%r0, %r3}, %d0"), 0u);
}

TEST(Machine, RoundsToTwoBytes) {
  EXPECT_EQ(Of("mov.b32 %f1, %r1; mov.b32 %f2, %r2; cvt.rn.bf16x2.f32 %r0, %f1, %f2", 0x3f808000, 0x3f818000), 0x3f803f82u)
      << "to even";
  EXPECT_EQ(Of("mov.b32 %f1, %r1; cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r0, %h1", 0x477ff000), 0x7c00u)
      << "65520, to infinity";
  EXPECT_EQ(Of("mov.b32 %f1, %r1; cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r0, %h1", 0xffc00000), 0x7fffu) << "the one NaN";
  EXPECT_EQ(Of("cvt.u16.u32 %h1, %r1; cvt.f32.f16 %f1, %h1; mov.b32 %r0, %f1", 1), 0x33800000u) << "2^-24";
}

TEST(Machine, CallsFunctions) {
  const std::string twice = R"(
    .func (.param .b32 result) twice(.param .b32 x);
    .func (.param .b32 result) twice(.param .b32 x) {
      .reg .b32 %r<2>;
      ld.param.u32 %r1, [x];
      shl.b32 %r1, %r1, 1;
      st.param.b32 [result+0], %r1;
      ret;
    })";
  const std::string text = Text(R"(
    ld.global.u32 %r1, [%own];
    { .param .b32 x0; st.param.b32 [x0+0], %r1; .param .b32 r0; call.uni (r0), twice, (x0); ld.param.b32 %r2, [r0+0]; }
    st.global.u32 [%own], %r2;)",
                                twice);
  EXPECT_EQ(RunKernel(text, {5, 6}, {2, 1, false}), (std::vector<uint32_t>{10, 12}));
}

// Each thread's neighbour's number, through shared memory.
std::string Exchange(const std::string& between) {
  return Text(R"(
    .shared .align 4 .b8 tile[128];
    mov.u32 %r1, tile;
    shl.b32 %r2, %t, 2;
    add.s32 %r3, %r1, %r2;
    st.shared.u32 [%r3], %t;
    )" + between +
              R"(
    xor.b32 %r4, %r2, 4;
    add.s32 %r5, %r1, %r4;
    ld.shared.u32 %r6, [%r5];
    st.global.u32 [%own], %r6;)");
}

TEST(Machine, PassesBarriersAndShuffles) {
  const std::string shuffle = Text("shfl.sync.bfly.b32 %r1|%p1, %t, 1, 31, -1; st.global.u32 [%own], %r1;");
  for (const bool is_backwards : {false, true}) {
    for (const std::string& text : {Exchange("bar.sync 0;"), shuffle}) {
      const std::vector<uint32_t> got = RunKernel(text, std::vector<uint32_t>(32), {32, 1, is_backwards});
      for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(got[t], t ^ 1);
    }
  }
}

void ExpectEnd(const std::string& text, const LaunchShape& shape, const char* words) {
  EXPECT_EXIT(RunKernel(text, std::vector<uint32_t>(64), shape), ExitedWithCode(kLateExitCode), words);
}

TEST(Machine, EndsWhereThreadsOfABlockRace) {
  for (const bool is_backwards : {false, true}) {
    ExpectEnd(Exchange(""), {32, 1, is_backwards},
              "kernel kernel, line .*, block 0, thread .*: writes what another thread reads");
  }
  ExpectEnd(Text("st.global.u32 [%own], %t; ld.global.u32 %r1, [%a];"), {32, 1, false},
            "thread 1: reads what another thread writes, with no barrier between");
  ExpectEnd(Text("ld.global.u32 %r1, [%a]; st.global.u32 [%own], %t;"), {32, 1, true},
            "thread 0: writes what another thread reads");
  ExpectEnd(Text("st.global.u32 [%a], %t;"), {32, 1, false}, "thread 1: writes what another thread reads or writes");
}

TEST(Machine, EndsWhereBlocksRace) {
  const std::string all_write = "bar.sync 0; st.global.u32 [%own], %t;";
  RunKernel(Text(all_write), std::vector<uint32_t>(64), {32, 1, false});
  ExpectEnd(Text(all_write), {32, 2, false}, "block 1, thread 0: writes what another thread reads or writes");
  ExpectEnd(Text("mov.u32 %r1, %ctaid.x; setp.eq.s32 %p1, %r1, 0; @%p1 ld.global.u32 %r2, [%a]; "
                 "setp.eq.s32 %p2, %t, %r1; @%p1 bra done; @%p2 st.global.u32 [%a], %t; done:"),
            {32, 2, false}, "block 1, thread 1: writes what another thread reads");
}

TEST(Machine, LetsAtomicsMeetEachOtherAlone) {
  const std::string atomics = "atom.global.max.u32 %r1, [%a], %t;";
  EXPECT_EQ(RunKernel(Text(atomics), std::vector<uint32_t>(4), {32, 2, false})[0], 31u);
  ExpectEnd(Text(atomics + "ld.global.u32 %r1, [%a];"), {32, 1, false}, "with no barrier between");
}

// Each block writes a word; the block that is counted last adds them up.
std::string LastBlockAdds(const std::string& before, const std::string& after) {
  return Text("mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %rd1, %a; st.global.u32 [%rd1+8], 5;" +
              before + "mov.u64 %rd3, 1; atom.global.add.u64 %rd2, [%a], %rd3;" + after +
              "setp.ne.s64 %p1, %rd2, 1; @%p1 bra done; ld.global.u32 %r2, [%a+8]; ld.global.u32 %r3, [%a+12]; add.s32 %r2, "
              "%r2, %r3; "
              "st.global.u32 [%a+16], %r2; done:");
}

TEST(Machine, LetsTheBlockThatIsCountedLastSeeTheOthers) {
  const std::vector<uint32_t> none(5);
  EXPECT_EQ(RunKernel(LastBlockAdds("membar.gl;", "membar.gl;"), none, {1, 2, false})[4], 10u);
  ExpectEnd(LastBlockAdds("", "membar.gl;"), {1, 2, false}, "block 1, thread 0: reads what another thread writes");
  ExpectEnd(LastBlockAdds("membar.gl;", ""), {1, 2, false}, "block 1, thread 0: reads what another thread writes");
}

TEST(Machine, EndsAtMemoryThatIsNotThere) {
  ExpectEnd(Text("st.global.u32 [%own], %t;"), {128, 1, false}, "thread 64: 4 bytes at .* are in no memory of the device");
  ExpectEnd(Text("ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%a+4];"), {1, 1, false}, "16 bytes at .* are not aligned");
  ExpectEnd(Text(".shared .align 4 .b8 tile[8]; mov.u32 %r1, tile; st.shared.u32 [%r1+8], %t;"), {1, 1, false},
            "4 bytes at 8 are outside of 8");
}

TEST(Machine, EndsWhereThreadsDoNotMeet) {
  ExpectEnd(Text("setp.lt.u32 %p1, %t, 7; @%p1 bra done; bar.sync 0; done:"), {32, 1, false},
            "not at the barrier of its block's other threads");
  ExpectEnd(Text("setp.lt.u32 %p1, %t, 7; @%p1 bra done; shfl.sync.bfly.b32 %r1|%p2, %t, 1, 31, -1; done:"), {32, 1, false},
            "not at the shuffle of its warp's other threads");
  ExpectEnd(Text("shfl.sync.bfly.b32 %r1|%p1, %t, 1, 31, -1;"), {16, 1, false}, "a shuffle of a warp that is not whole");
}

TEST(Machine, RefusesWhatItHasNot) {
  const auto refuses = [](const std::string& body, const char* words) {
    EXPECT_EXIT(Parse(Text(body)), ExitedWithCode(kLateExitCode), words);
  };
  refuses("ex2.approx.f32 %f0, %f1;", "PTX, line .*: instruction ex2.approx.f32 is unknown");
  refuses("add.rn.ftz.f32 %f0, %f1, %f2;", "instruction add.rn.ftz.f32 is unknown");
  refuses("ld.const.u32 %r0, [%a];", "state space const is unknown");
  refuses("ld.volatile.global.u32 %r0, [%a];", "state space volatile is unknown");
  refuses("atom.global.cas.b32 %r0, [%a], %r1;", "atom.cas is unknown");
  refuses("bra nowhere;", "there is no label nowhere");
  refuses("add.s32 %r0, %r1, %missing;", "at \"%missing\": not a whole number");
  EXPECT_EXIT(RunKernel(Text("div.u32 %r0, %r1, 0;"), {0}, {1, 1, false}), ExitedWithCode(kLateExitCode),
              "divides a whole number by zero");
}

}  // namespace
}  // namespace zeroshard::device::cuda::ptx
